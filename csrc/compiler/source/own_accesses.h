// Note [accesses of the user's own]
//   Our DiffTensorView has accesses that Slang's core has not: loadFixed, loadUniform, loadUniformOnce and their stores. A
//   source written for core may add some of these names itself, with another meaning (SlangPy's loadUniform is our loadFixed),
//   by an extension. Slang then takes ours wherever it fits as well, and says nothing. So the library is compiled without the
//   pairs that a source declares.
#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

struct AccessPair {
  std::string_view load, store;
  const char* without;  // the macro that leaves the pair out of the library
};

inline constexpr std::array<AccessPair, 3> kAccessPairs = {{
    {"loadFixed", "storeFixed", "TORCH_SLANG_WITHOUT_FIXED"},
    {"loadUniform", "storeUniform", "TORCH_SLANG_WITHOUT_UNIFORM"},
    {"loadUniformOnce", "storeUniformOnce", "TORCH_SLANG_WITHOUT_UNIFORM_ONCE"},
}};

// The macros of the pairs of which an extension of DiffTensorView in these files declares a method with an index.
std::set<std::string> own_accesses(const std::vector<const std::string*>& texts);

}  // namespace torch_slang
