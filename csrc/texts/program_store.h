// Programs from the disk cache or the compiler. A cached Program counts only if every file that went into it is unchanged
// and none has appeared that would now be found first; no compiler is started to find that out.
#pragma once

#include <future>
#include <memory>

#include "program/program.h"

namespace torch_slang {

std::shared_ptr<const Program> load_program(const CompileRequest& request);  // throws CompileError

// A Program whose texts may still be on their way, made by a thread of its own.
struct BegunProgram {
  std::shared_ptr<const Program> described;  // all but the texts, at least
  // With them, or why there are none; invalid if they are in `described`.
  std::shared_future<std::shared_ptr<const Program>> complete;
};
// Returns as soon as the module is described. Of one with tuned variables or host functions the texts are waited for: what its
// operators are depends on them.
BegunProgram begin_program(const CompileRequest& request);  // throws CompileError

// A Program that was compiled ahead and comes with the package.
std::shared_ptr<const Program> read_program(const std::string& path);

}  // namespace torch_slang
