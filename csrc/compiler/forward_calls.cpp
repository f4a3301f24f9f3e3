#include "compiler/forward_calls.h"

#include <c10/util/StringUtil.h>

#include <string>

#include "common/identifiers.h"
#include "compiler/reflect/own_derivatives.h"
#include "compiler/text/refused_text.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

// Slang calls the forward derivative of f `s_fwd_f_0`, and of a method of S `s_fwd_S_f_0`.
bool has_forward_of(const Code& emitted, const std::string& name) {
  const std::string end = "_" + name;
  for (size_t at = 0; at < emitted.size(); ++at) {
    if (!emitted.is_name(at) || !is_numbered(emitted[at])) continue;
    const std::string_view stem = emitted[at].substr(0, emitted[at].rfind('_'));
    if (stem.ends_with(end) && has_part(stem, {"s_fwd_"})) return true;
  }
  return false;
}

}  // namespace

void refuse_lost_forward_calls(const Code& emitted, Session& session) {
  const SourceFiles& files = session.files();
  if (files.names().count("fwd_diff") == 0 && files.names().count("__fwd_diff") == 0) return;
  const std::set<std::string> lost = backward_only_functions(session.slang());
  if (lost.empty()) return;
  const UndeclaredStructs sources = files.structs();
  const bool hidden = may_hide_calls(files.names());
  for (const std::string& function : sources.forward_derivatives()) {
    if (!hidden && !has_forward_of(emitted, function)) continue;
    const Names reached = sources.names_reached(function);
    for (const std::string& name : lost) {
      if (reached.count(name) == 0) continue;
      throw RefusedText{c10::str("`fwd_diff(", function, ")` would have zeros for ", name, ", which has a ",
                                 "[BackwardDerivative] and no [ForwardDerivative]: give it one")};
    }
  }
}

}  // namespace torch_slang
