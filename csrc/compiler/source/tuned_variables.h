// [Tune("BM", "32, 64")] makes BM a macro of the module, which must be there before Slang sees the text. So the attribute
// is looked for in the text of the file itself: one in a file that it includes needs a define.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// Name and first value of each variable, in order; of two attributes with one name the first counts.
std::vector<std::pair<std::string, std::string>> tuned_variables(std::string_view source);

// The same with the values that defines give them.
std::vector<std::pair<std::string, std::string>> values_of_tuned(
    std::string_view source, const std::vector<std::pair<std::string, std::string>>& defines);

// The request with a define for each variable of the source that has none.
CompileRequest with_tuned_variables(CompileRequest request, std::string_view source);

}  // namespace torch_slang
