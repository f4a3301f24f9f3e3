// A pass: statements say which line of the user's they come from. A check that fails as the kernel runs names that line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [statement lines]
//   Emitted text says by #line which line of which file it comes from, which a compiler reads but running code does not
//   know. So `TSL_AT(file, line);` is put before the statements of each function, `file` an index into `files`; it means
//   nothing unless the kernel is compiled with checks.
//     - Only the user's files count. Functions of our library and of Slang's own, and generated ones, leave what their
//       caller has said. Our library comes without #line: a function counts as one of the user's from the first new #line,
//       before it or in it.
//     - A function that stands for a variable leaves what its caller has said, too.
//     - It stands before the statements of blocks, but for labels and what stands right behind one, `while` loops, and loops of
//       which a #pragma speaks.
// Counts them.
int add_statement_lines(EmittedCode& code, std::vector<std::string>& files);

// Neither Slang's core, nor our library, nor a wrapper.
bool is_users_file(std::string_view file);

}  // namespace torch_slang
