#include "compiler/emit/unread_additions.h"

#include <map>
#include <string_view>
#include <vector>

#include "compiler/ctext/lvalues.h"

namespace torch_slang {
namespace {

// `*((&before_0)) = atomicAdd(`
constexpr std::string_view kTarget[] = {"*", "(", "(", "&"};
constexpr std::string_view kAddition[] = {")", ")", "=", "atomicAdd", "("};

struct Addition {
  Span span;  // to be replaced
  std::string_view result;
};

template <size_t kCount>
bool stands_at(const EmittedCode& code, size_t at, const std::string_view (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (code[at + i] != words[i]) return false;
  }
  return true;
}

// `(view_0).data_ptr_at<float>(...`. Integers are left as they are: a second compile is not worth it for counters.
bool is_of_floats(const EmittedCode& code, Span arguments) {
  size_t at = arguments.begin;
  while (at < arguments.end && code[at] != "data_ptr_at") ++at;
  const std::string_view type = code[at + 2];
  return code[at + 1] == "<" && (type == "float" || type == "double" || type == "__half" || type == "__nv_bfloat16");
}

std::vector<Addition> additions_in(const EmittedCode& code, const EmittedFunction& function) {
  std::vector<Addition> additions;
  for_each_simple(function.body, [&](const EmittedStatement& statement) {
    const size_t name = statement.span.begin + std::size(kTarget), behind = name + 1;
    if (!stands_at(code, statement.span.begin, kTarget) || !stands_at(code, behind, kAddition)) return;
    const size_t open = behind + std::size(kAddition) - 1;
    if (code.closing(open, statement.span.end) + 2 != statement.span.end) return;  // the call, and the semicolon
    if (!is_of_floats(code, {open, statement.span.end})) return;
    additions.push_back({{statement.span.begin, open}, code[name]});
  });
  return additions;
}

// How often the function names each variable, and which of them it declares.
struct Names {
  std::map<std::string_view, size_t> mentions;
  std::map<std::string_view, size_t> declarations;

  Names(const EmittedCode& code, const EmittedFunction& function) {
    const Span span = function.body.span;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code.is_name(at)) ++mentions[code[at]];
    }
    for_each_simple(function.body, [&](const EmittedStatement& statement) {
      const auto declared = code.assignment(statement);
      if (!declared || declared->kind != Assignment::Kind::Declare) return;
      const size_t at = statement.span.begin + 1;  // a scalar's type is one word
      if (code.is_name(at)) ++declarations[code[at]];
    });
  }
};

}  // namespace

int write_unread_additions(EmittedCode& code) {
  int count = 0;
  for (const EmittedFunction& function : code.functions()) {
    const std::vector<Addition> additions = additions_in(code, function);
    if (additions.empty()) continue;
    Names names(code, function);
    std::map<std::string_view, size_t> results;
    for (const Addition& addition : additions) ++results[addition.result];
    for (const Addition& addition : additions) {
      const std::string_view result = addition.result;
      if (names.declarations[result] != 1 || names.mentions[result] != results[result] + 1) continue;
      code.replace(addition.span, "tsl_add_only");
      ++count;
    }
  }
  return count;
}

}  // namespace torch_slang
