// Marks that compiled code shows: Note [marks] in prelude/mark.h.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {

// `compiled` is PTX or a binary file's content. {"reads 3", "writes 0", ...}; without the mark `control`, all marks of
// all views. A mark names its view by a number, or by a register that holds it. If the register's number is not seen, the mark
// counts for every view: Note [numbers in marks] in prelude/mark.h. But for loads and stores, upon which kernels may be refused:
// the text says which views those may be to, and there is one mark.
inline constexpr std::string_view kReadsSome = "reads some", kWritesSome = "writes some";
std::set<std::string> find_marks(std::string_view compiled, int view_count);

// The numbers of the marks that begin with this word: {230400} for "shared" and "shared 230400".
std::vector<int> numbers_of(const std::set<std::string>& marks, std::string_view word);

// As kept beside a cached binary: "reads 3;writes 0;".
std::string marks_to_text(const std::set<std::string>& marks);
std::set<std::string> marks_from_text(std::string_view text);

}  // namespace torch_slang
