#include "compiler/emit/unset_contexts.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

constexpr std::string_view kView = "s_bwdCallableCtx_DiffTensorView_";

// Takes the first of these words off the front of `text`, if it starts with one.
bool take(std::string_view& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    return true;
  }
  return false;
}

// The context of an access to a view, in a backward or in the backward of a forward derivative (the methods of
// slang/view.slang). What derivatives of the user's functions keep may be looked at at any time.
bool is_context_of_access(std::string_view type) {
  if (!type.starts_with(kView) || !is_numbered(type)) return false;
  std::string_view method = type.substr(kView.size(), type.rfind('_') - kView.size());
  if (!take(method, {"load", "store"})) return false;
  take(method, {"Fixed", "UniformOnce", "Uniform", "Once"});
  take(method, {"_forward", "_value", "_tangent"});
  return method.empty();
}

}  // namespace

int unset_contexts(Code& code) {
  int count = 0;
  for (size_t at = 0; at < code.size(); ++at) {
    if (!is_context_of_access(code[at]) || !code.is_name(at + 1) || code[at + 2] != "=") continue;
    const size_t open = code[at + 3] == code[at] ? at + 4 : at + 3;  // `{}`, `T{}` or `T()`
    if (!opens(code[open]) || code.closing(open) != open + 1 || code[open + 2] != ";") continue;
    code.replace({at + 1, open + 3}, std::string(code[at + 1]) + ";");
    ++count;
  }
  return count;
}

}  // namespace torch_slang
