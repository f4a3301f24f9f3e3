// What a thread's last CompileError or LaunchError said: from torch 2.15 on torch.ops makes a RuntimeError of each.
#pragma once

#include <c10/macros/Export.h>

#include <string>

namespace torch_slang {

struct OwnError {
  enum class Kind { None, Compile, Launch } kind = Kind::None;
  std::string message;
};

C10_EXPORT const OwnError& last_own_error();

}  // namespace torch_slang
