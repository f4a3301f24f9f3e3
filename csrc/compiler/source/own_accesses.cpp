#include "compiler/source/own_accesses.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace torch_slang {
namespace {

struct AccessPair {
  std::string_view load, store;
  const char* without;  // the macro that leaves the pair out of the library
};

constexpr std::array<AccessPair, 3> kAccessPairs = {{
    {"loadFixed", "storeFixed", "TORCH_SLANG_WITHOUT_FIXED"},
    {"loadUniform", "storeUniform", "TORCH_SLANG_WITHOUT_UNIFORM"},
    {"loadUniformOnce", "storeUniformOnce", "TORCH_SLANG_WITHOUT_UNIFORM_ONCE"},
}};

const AccessPair* pair_of(std::string_view name) {
  const auto found = std::find_if(kAccessPairs.begin(), kAccessPairs.end(),
                                  [&](const AccessPair& pair) { return name == pair.load || name == pair.store; });
  return found == kAccessPairs.end() ? nullptr : &*found;
}

// `typealias Texture = DiffTensorView<float>;`, `typedef DiffTensorView<float> Texture;`, `typealias Texture<T> = ...`
void add_aliases(const SourceCode& tokens, std::set<std::string, std::less<>>& names) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] == "typealias") {
      const size_t equals = tokens.behind_angles(at + 2);
      if (tokens[equals] == "=" && names.count(tokens[equals + 1]) > 0) names.emplace(tokens[at + 1]);
    } else if (tokens[at] == "typedef" && names.count(tokens[at + 1]) > 0) {
      names.emplace(tokens[tokens.behind_angles(at + 2)]);
    }
  }
}

// An overload by float coordinates, say, takes nothing from ours.
bool takes_index(const SourceCode& tokens, size_t open) {
  size_t at = open + 1;
  while (tokens[at] == "no_diff" || tokens[at] == "in" || tokens[at] == "const") ++at;
  return !tokens[at].starts_with("float") && !tokens[at].starts_with("half") && !tokens[at].starts_with("double") &&
         !(tokens[at] == "vector" && tokens[at + 2].starts_with("float"));
}

void add_declared(const SourceCode& tokens, size_t begin, size_t end, std::set<std::string>& macros) {
  for (size_t at = begin; at < end; ++at) {
    if (tokens[at] == "{" || tokens[at] == "(") {
      const size_t close = tokens.closing(at);
      // `DECLARE(loadUniform)`, a macro that makes one of its argument
      for (size_t i = at + 1; tokens[at] == "(" && i < close; ++i) {
        if (const AccessPair* pair = pair_of(tokens[i])) macros.insert(pair->without);
      }
      at = close;
      continue;
    }
    const AccessPair* pair = pair_of(tokens[at]);
    if (pair == nullptr) continue;
    const size_t open = tokens.behind_angles(at + 1);
    if (tokens[open] == "(" && takes_index(tokens, open)) macros.insert(pair->without);
  }
}

}  // namespace

std::set<std::string> own_accesses(const std::vector<const SourceCode*>& files) {
  std::set<std::string> macros;
  std::set<std::string, std::less<>> views = {"DiffTensorView"};
  for (size_t known = 0; known != views.size();) {  // an alias may be of another file's
    known = views.size();
    for (const SourceCode* file : files) add_aliases(*file, views);
  }
  for (const SourceCode* file : files) {
    const SourceCode& tokens = *file;
    for (size_t at = 0; at < tokens.size(); ++at) {
      if (tokens[at] != "extension") continue;
      bool is_of_view = false;
      size_t open = at + 1;
      for (; open < tokens.size() && tokens[open] != "{"; ++open) is_of_view |= views.count(tokens[open]) > 0;
      if (is_of_view) add_declared(tokens, open + 1, tokens.closing(open), macros);
    }
  }
  return macros;
}

}  // namespace torch_slang
