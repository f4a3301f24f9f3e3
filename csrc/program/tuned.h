// Tuned variables: preprocessor macros with a list of values, of which the fastest is found by trying. The value that a
// module is described with is the first.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

// Splits at commas outside brackets and trims: "32, 64, max(8, 4)" -> {"32", "64", "max(8, 4)"}. Empty ones are left out.
std::vector<std::string> split_values(const std::string& list);

}  // namespace torch_slang
