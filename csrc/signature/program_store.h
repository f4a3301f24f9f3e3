// Programs from the disk cache or the compiler. A cached Program counts only if every file that went into it is unchanged
// and none has appeared that would now be found first; no compiler is started to find that out.
#pragma once

#include <memory>

#include "program/program.h"

namespace torch_slang {

std::shared_ptr<const Program> load_program(const CompileRequest& request);  // throws CompileError

// A Program that was compiled ahead and comes with the package.
std::shared_ptr<const Program> read_program(const std::string& path);

}  // namespace torch_slang
