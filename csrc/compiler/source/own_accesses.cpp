#include "compiler/source/own_accesses.h"

#include <algorithm>

#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

const AccessPair* pair_of(std::string_view name) {
  const auto found = std::find_if(kAccessPairs.begin(), kAccessPairs.end(),
                                  [&](const AccessPair& pair) { return name == pair.load || name == pair.store; });
  return found == kAccessPairs.end() ? nullptr : &*found;
}

// `typealias Texture = DiffTensorView<float>;`
std::set<std::string_view> names_of_view(const SourceTokens& tokens) {
  std::set<std::string_view> names = {"DiffTensorView"};
  for (size_t at = 0; at < tokens.size(); ++at) {
    const bool is_alias = tokens[at] == "typealias" && tokens[at + 2] == "=" && names.count(tokens[at + 3]) > 0;
    if (is_alias) names.insert(tokens[at + 1]);
  }
  return names;
}

// The position behind `<...>`, if one begins here.
size_t behind_generics(const SourceTokens& tokens, size_t at) {
  if (tokens[at] != "<") return at;
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    depth += tokens[at] == "<" ? 1 : tokens[at] == ">" ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return at;
}

// An overload by float coordinates, say, takes nothing from ours.
bool takes_index(const SourceTokens& tokens, size_t open) {
  size_t at = open + 1;
  while (tokens[at] == "no_diff" || tokens[at] == "in" || tokens[at] == "const") ++at;
  return !tokens[at].starts_with("float") && !tokens[at].starts_with("half") && !tokens[at].starts_with("double") &&
         !(tokens[at] == "vector" && tokens[at + 2].starts_with("float"));
}

void add_declared(const SourceTokens& tokens, size_t begin, size_t end, std::set<std::string>& macros) {
  for (size_t at = begin; at < end; ++at) {
    if (tokens[at] == "{" || tokens[at] == "(") {
      at = tokens.closing(at);
      continue;
    }
    const AccessPair* pair = pair_of(tokens[at]);
    if (pair == nullptr) continue;
    const size_t open = behind_generics(tokens, at + 1);
    if (tokens[open] == "(" && takes_index(tokens, open)) macros.insert(pair->without);
  }
}

}  // namespace

void add_own_accesses(const std::string& text, std::set<std::string>& macros) {
  const bool may_have = std::any_of(kAccessPairs.begin(), kAccessPairs.end(), [&](const AccessPair& pair) {
    return text.find(pair.load) != std::string::npos || text.find(pair.store) != std::string::npos;
  });
  if (!may_have || text.find("extension") == std::string::npos) return;
  const SourceTokens tokens(text);
  const std::set<std::string_view> views = names_of_view(tokens);
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] != "extension") continue;
    bool is_of_view = false;
    size_t open = at + 1;
    for (; open < tokens.size() && tokens[open] != "{"; ++open) is_of_view |= views.count(tokens[open]) > 0;
    if (is_of_view) add_declared(tokens, open + 1, tokens.closing(open), macros);
  }
}

}  // namespace torch_slang
