#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

const Assignment* EmittedCode::assignment(const EmittedStatement& statement) const {
  if (!statement.assigned) return nullptr;
  const auto [found, is_new] = assignments_.try_emplace(statement.span.begin);
  if (is_new) found->second = read_assignment(*this, statement);
  return found->second ? &*found->second : nullptr;
}

// An address is an argument where a comma or the call's bracket stands before it. `&x->field` of a pointer is the caller's.
std::vector<std::string> EmittedCode::handed_on(Span span) const {
  std::vector<std::string> found;
  for (size_t at = span.begin + 1; at + 2 < span.end; ++at) {
    const std::string_view before = (*this)[at - 1];
    if ((*this)[at] != "&" || !is_name(at + 1)) continue;
    const bool of_call =
        before == "," || (before == "(" && at >= span.begin + 2 && is_name(at - 2) && (*this)[at - 2] != kElement);
    if (of_call) found.emplace_back((*this)[at + 1]);
  }
  return found;
}

}  // namespace torch_slang
