#include "compiler/emit/unset_contexts.h"

#include <string>
#include <string_view>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

// The context of an access to a view. What derivatives of the user's functions keep may be looked at at any time.
bool is_context_of_access(std::string_view type) {
  constexpr std::string_view kView = "s_bwdCallableCtx_DiffTensorView_";
  if (!type.starts_with(kView) || !is_numbered(type)) return false;
  const std::string_view method = type.substr(kView.size(), type.rfind('_') - kView.size());
  if (!method.starts_with("load") && !method.starts_with("store")) return false;
  const std::string_view access = method.substr(method.starts_with("load") ? 4 : 5);
  return access.empty() || access == "Fixed" || access == "Uniform" || access == "Once" || access == "UniformOnce";
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
