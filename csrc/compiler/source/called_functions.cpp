#include "compiler/source/called_functions.h"

#include <algorithm>
#include <set>

namespace torch_slang {
namespace {

bool may_be(std::string_view function, std::string_view name) {
  if (function.empty() || name == function) return !function.empty();
  if (name.size() <= function.size()) return false;
  return (name.starts_with(function) && name[function.size()] == '_') ||
         (name.ends_with(function) && name[name.size() - function.size() - 1] == '_');
}

}  // namespace

std::vector<SourceFunction> called_functions(const SourceCode& code, const std::vector<SourceFunction>& functions,
                                             const std::string& name) {
  std::set<size_t> found;
  std::vector<size_t> unread;
  const auto add = [&](size_t i) {
    if (found.insert(i).second) unread.push_back(i);
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    if (may_be(code[functions[i].name], name)) add(i);
  }
  if (found.empty()) return functions;
  while (!unread.empty()) {
    const SourceFunction& caller = functions[unread.back()];
    unread.pop_back();
    std::set<std::string_view> words;
    for (size_t at = caller.body; at < caller.end; ++at) words.insert(code[at]);
    for (size_t i = 0; i < functions.size(); ++i) {
      if (words.count(code[functions[i].name]) > 0) add(i);
    }
  }
  std::vector<SourceFunction> called;
  for (const size_t i : found) called.push_back(functions[i]);
  return called;
}

}  // namespace torch_slang
