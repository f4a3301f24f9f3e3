#include "compiler/emit/rereads.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "common/identifiers.h"
#include "compiler/emit/gradient_flow.h"

namespace torch_slang {
namespace {

bool is_gradient_function(std::string_view name) { return name.starts_with(kBackward); }

// `(x_0).load<float>(i_0)`, and what reads through an address.
bool loads(const EmittedCode& code, Span span) {
  for (size_t at = span.begin; at < span.end; ++at) {
    const std::string_view name = code[at];
    if (!code.is_member(at) || is_numbered(name)) continue;
    if (name.starts_with("load") || name.starts_with("data_ptr")) return true;
  }
  return false;
}

}  // namespace

bool loads_among_gradients(EmittedText& emitted) {
  const std::array<const EmittedCode*, 2> parts = {&emitted.file_scope(), &emitted.code()};
  std::set<std::string_view> names, loading;
  for (const EmittedCode* code : parts) {
    for (const EmittedFunction& function : code->functions()) names.insert(function.name);
  }
  std::map<std::string_view, std::set<std::string_view>> callees;
  for (const EmittedCode* code : parts) {
    for (const EmittedFunction& function : code->functions()) {
      const Span body = function.body.span;
      for (size_t at = body.begin; at < body.end; ++at) {
        if (names.count((*code)[at]) > 0 && (*code)[at + 1] == "(") callees[function.name].insert((*code)[at]);
      }
      if (loads(*code, body)) loading.insert(function.name);
    }
  }
  const auto calls_one_that_loads = [&](std::string_view caller) {
    return std::any_of(callees[caller].begin(), callees[caller].end(), [&](std::string_view callee) {
      return !is_gradient_function(callee) && loading.count(callee) > 0;
    });
  };
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view name : names) more |= calls_one_that_loads(name) && loading.insert(name).second;
  }
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return is_gradient_function(name) && calls_one_that_loads(name); });
}

}  // namespace torch_slang
