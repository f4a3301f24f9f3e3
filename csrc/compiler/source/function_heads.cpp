#include "compiler/source/function_heads.h"

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/source/differentiable_functions.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 6> kHeads = {"if", "for", "while", "switch", "catch", "return"};
constexpr std::array<std::string_view, 7> kModifiers = {"public",   "internal", "private", "static",
                                                        "override", "inline",   "export"};

// Where the name is whose parameters open there.
std::optional<size_t> name_before(const SourceCode& code, size_t open) {
  if (open < 2) return {};
  for (size_t at = open; at-- > 0 && at + 4 > open;) {  // `operator+(`, `operator<<(`
    if (code[at] == "operator" && at + 1 < open) return at;
    if (code.is_name(at)) break;
  }
  size_t name = open - 1;
  if (code[name] == ">") {
    name = code.opening_angle(name);
    if (name-- == 0) return {};
  }
  const bool is_one = code.is_name(name) && !is_among(kHeads, code[name]);
  return is_one ? std::optional(name) : std::nullopt;
}

// Behind parameters and what constrains types; the end if no body is there.
size_t body_behind(const SourceCode& code, size_t close) {
  size_t at = close + 1;
  if (code[at] != "{" && code[at] != "where" && code[at] != "-") return code.size();
  while (at < code.size() && code[at] != "{" && code[at] != ";" && code[at] != "}") ++at;
  return code[at] == "{" ? at : code.size();
}

void read_attributes(const SourceCode& code, FunctionHead& head) {
  for (size_t at = head.begin; at < head.name; ++at) {
    if (code[at] != "[") continue;
    for (const size_t close = code.closing(at); at < close && at < head.name; ++at) {
      if (code.is_name(at)) head.attributes.emplace(code[at]);
    }
  }
  head.type = head.begin;
  while (code[head.type] == "[" || is_among(kModifiers, code[head.type])) {
    head.is_static = head.is_static || code[head.type] == "static";
    head.type = code[head.type] == "[" ? code.closing(head.type) + 1 : head.type + 1;
  }
}

}  // namespace

bool FunctionHead::is_kernel() const {
  return has("CudaKernel") || has("CUDAKernel") || has("AutoPyBindCUDA") || has("PyBindCUDA");
}

bool FunctionHead::is_differentiable() const {
  return std::ranges::any_of(kDifferentiable, [&](std::string_view one) { return has(one); });
}

bool FunctionHead::has_own_derivative() const { return has("BackwardDerivative") || has("ForwardDerivative"); }

bool FunctionHead::may_become_differentiable() const {
  return !is_kernel() && !is_differentiable() && !has_own_derivative() && !has("TreatAsDifferentiable");
}

std::vector<FunctionHead> function_heads(const SourceCode& code) {
  std::vector<FunctionHead> found;
  size_t behind = 0;  // the statement or declaration that ended last
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == ";" || code[at] == "{" || code[at] == "}") behind = at + 1;
    if (code[at] != "(") continue;
    const size_t close = code.closing(at);
    const auto name = name_before(code, at);
    const size_t body = name && *name >= behind ? body_behind(code, close) : code.size();
    if (body >= code.size()) continue;
    FunctionHead head;
    head.begin = behind;
    head.name = *name;
    head.open = at;
    head.close = close;
    head.body = body;
    head.end = code.closing(body);
    read_attributes(code, head);
    found.push_back(std::move(head));
    at = body;
    behind = at + 1;
  }
  return found;
}

std::vector<size_t> parameter_begins(const SourceCode& code, size_t open) {
  std::vector<size_t> begins;
  const size_t close = code.closing(open);
  for (size_t at = open; at < close;) {
    ++at;
    while (code[at] == "[") at = code.closing(at) + 1;
    if (at < close) begins.push_back(at);
    at = code.first_of_list(",", at, close);
  }
  return begins;
}

}  // namespace torch_slang
