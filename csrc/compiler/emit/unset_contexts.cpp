#include "compiler/emit/unset_contexts.h"

#include <string>

#include "common/identifiers.h"

namespace torch_slang {
bool is_context_of_access(std::string_view type) {
  constexpr std::string_view kView = "s_bwdCallableCtx_DiffTensorView_";
  if (!type.starts_with(kView) || !is_numbered(type)) return false;
  const std::string_view method = type.substr(kView.size(), type.rfind('_') - kView.size());
  if (!method.starts_with("load") && !method.starts_with("store")) return false;
  const std::string_view access = method.substr(method.starts_with("load") ? 4 : 5);
  return access.empty() || access == "Fixed" || access == "Uniform" || access == "Once" || access == "UniformOnce";
}

int unset_contexts(Code& code) {
  int count = 0;
  for (size_t at = 0; at + 5 < code.size(); ++at) {
    const bool is_cleared = is_context_of_access(code[at]) && code.is_name(at + 1) && code[at + 2] == "=" &&
                            code[at + 3] == "{" && code[at + 4] == "}" && code[at + 5] == ";";
    if (!is_cleared) continue;
    code.replace({at + 1, at + 6}, std::string(code[at + 1]) + ";");
    ++count;
  }
  return count;
}

}  // namespace torch_slang
