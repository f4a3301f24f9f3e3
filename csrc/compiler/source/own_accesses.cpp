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
void add_aliases(const SourceCode& code, std::set<std::string, std::less<>>& names) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code[at] == "typealias") {
      const size_t equals = code.behind_angles(at + 2);
      if (code[equals] == "=" && names.count(code[equals + 1]) > 0) names.emplace(code[at + 1]);
    } else if (code[at] == "typedef" && names.count(code[at + 1]) > 0) {
      names.emplace(code[code.behind_angles(at + 2)]);
    }
  }
}

// An overload by float coordinates, say, takes nothing from ours.
bool takes_index(const SourceCode& code, size_t open) {
  size_t at = open + 1;
  while (code[at] == "no_diff" || code[at] == "in" || code[at] == "const") ++at;
  return !code[at].starts_with("float") && !code[at].starts_with("half") && !code[at].starts_with("double") &&
         !(code[at] == "vector" && code[at + 2].starts_with("float"));
}

void add_declared(const SourceCode& code, size_t begin, size_t end, std::set<std::string>& macros) {
  for (size_t at = begin; at < end; ++at) {
    if (code[at] == "{" || code[at] == "(") {
      const size_t close = code.closing(at);
      // `DECLARE(loadUniform)`, a macro that makes one of its argument
      for (size_t i = at + 1; code[at] == "(" && i < close; ++i) {
        if (const AccessPair* pair = pair_of(code[i])) macros.insert(pair->without);
      }
      at = close;
      continue;
    }
    const AccessPair* pair = pair_of(code[at]);
    if (pair == nullptr) continue;
    const size_t open = code.behind_angles(at + 1);
    if (code[open] == "(" && takes_index(code, open)) macros.insert(pair->without);
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
    const SourceCode& code = *file;
    for (size_t at = 0; at < code.size(); ++at) {
      if (code[at] != "extension") continue;
      bool is_of_view = false;
      size_t open = at + 1;
      for (; open < code.size() && code[open] != "{"; ++open) is_of_view |= views.count(code[open]) > 0;
      if (is_of_view) add_declared(code, open + 1, code.closing(open), macros);
    }
  }
  return macros;
}

}  // namespace torch_slang
