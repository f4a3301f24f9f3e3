#include "compiler/emit/unset_contexts.h"

#include <array>
#include <vector>

#include "common/identifiers.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// The places of `count` tokens of code from `at` on; fewer at the text's end.
std::vector<size_t> code_from(const std::vector<Token>& tokens, size_t at, size_t count) {
  std::vector<size_t> places;
  for (; at < tokens.size() && places.size() < count; ++at) {
    if (is_code(tokens[at])) places.push_back(at);
  }
  return places;
}

}  // namespace

bool is_context_of_access(std::string_view type) {
  constexpr std::string_view kView = "s_bwdCallableCtx_DiffTensorView_";
  if (!type.starts_with(kView) || !is_numbered(type)) return false;
  const std::string_view method = type.substr(kView.size(), type.rfind('_') - kView.size());
  if (!method.starts_with("load") && !method.starts_with("store")) return false;
  const std::string_view access = method.substr(method.starts_with("load") ? 4 : 5);
  return access.empty() || access == "Fixed" || access == "Uniform" || access == "Once" || access == "UniformOnce";
}

int unset_contexts(std::string& body) {
  const std::vector<Token> tokens = split_tokens(body);
  constexpr std::array<std::string_view, 4> kCleared = {"=", "{", "}", ";"};
  std::string text;
  int count = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += tokens[i].text;
    if (tokens[i].kind != TokenKind::Identifier || !is_context_of_access(tokens[i].text)) continue;
    const auto places = code_from(tokens, i, 2 + kCleared.size());
    bool is_cleared = places.size() == 2 + kCleared.size() && tokens[places[1]].kind == TokenKind::Identifier;
    for (size_t k = 0; k < kCleared.size() && is_cleared; ++k) is_cleared = tokens[places[2 + k]].text == kCleared[k];
    if (!is_cleared) continue;
    text += " ";
    text += tokens[places[1]].text;
    text += ";";
    i = places.back();
    ++count;
  }
  body = std::move(text);
  return count;
}

}  // namespace torch_slang
