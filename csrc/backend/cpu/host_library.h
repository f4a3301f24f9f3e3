// C++ of host functions (Note [host functions] in prelude/host_abi.h) compiled by the machine's compiler, kept in the disk
// cache, and loaded.
#pragma once

#include <string>

#include "common/dynamic_library.h"
#include "program/program.h"

namespace torch_slang {

// `op` and `file`: whose text it is, for messages. `polls`: its loops ask if they are to stop. Throws CompileError.
DynamicLibrary load_host_library(const HostText& text, const std::string& op, const std::string& file, bool polls);

}  // namespace torch_slang
