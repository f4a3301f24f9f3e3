// The first pass: emitted text, which is declarations at file scope, becomes members of a struct. The kernel object is that
// struct: one thread's indices and all that the kernel may call.
#pragma once

#include <string>
#include <vector>

#include "compiler/text/code.h"

namespace torch_slang {

// Note [members]
//   Emitted text is a list of declarations at file scope. Inside a struct, functions and types may stay as they are;
//   entry points lose `extern "C" __global__`, prototypes go (bodies of members see all members), and variables become
//   static variables of a member function that gives a reference: `sh_0` becomes `tsl_var_sh_0()`. Slang's names carry
//   numbers that make them unique in the whole text, so renaming by name alone is safe. A GPU's static variables begin as
//   constants: what others they name stands in their place, and what a function must compute is computed at each use.

// The text needs a variable that a kernel object cannot have: a mutable global, or Slang's block of shader parameters.
struct UnsupportedGlobal {
  std::string name;
};

// For the user. `shader_parameters`: their names, if the module has any.
std::string explain_global(const UnsupportedGlobal& global, const std::vector<std::string>& shader_parameters);

// Counts entry points and variables. Throws UnsupportedGlobal, and RefusedText if there is no entry point.
int make_members(Code& code);

}  // namespace torch_slang
