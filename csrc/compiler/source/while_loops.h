// Rewrites `while (condition)` to `for (; condition;)`, which Slang differentiates right.
#pragma once

#include <string>

namespace torch_slang {

// Note [while loops]
//   Of a `while` whose condition is not `true`, Slang (2026.12) leaves the iteration that a `break` or `return` ends out of the
//   backward: the gradients of what is computed before the `break` are lost, without a word. Some other loops end its compiler: a
//   `continue` in a `while`, or a loop in a `while`. The same loops written with `for` are right. So every `while` of a source
//   becomes a `for`, in place: lines and columns before the condition stay as they are. `do ... while` is right, and stays.
std::string with_for_loops(const std::string& source);

}  // namespace torch_slang
