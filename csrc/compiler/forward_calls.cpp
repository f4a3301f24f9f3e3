#include "compiler/forward_calls.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string>

#include "common/identifiers.h"
#include "compiler/reflect/own_derivatives.h"
#include "compiler/text/refused_text.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// Slang calls the forward derivative of f `s_fwd_f_0`, and of a method of S `s_fwd_S_f_0`.
bool has_forward_of(std::string_view emitted, const std::string& name) {
  const std::string end = "_" + name;
  const std::vector<Token> tokens = split_tokens(emitted);
  return std::any_of(tokens.begin(), tokens.end(), [&](const Token& token) {
    if (token.kind != TokenKind::Identifier || !is_numbered(token.text)) return false;
    const std::string_view stem = token.text.substr(0, token.text.rfind('_'));
    return stem.ends_with(end) && stem.find("s_fwd_") != std::string_view::npos;
  });
}

}  // namespace

void refuse_lost_forward_calls(std::string_view emitted, Session& session) {
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
