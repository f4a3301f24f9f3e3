// Asks torch-slangc, a program of its own, to compile: a crash or a hang of the Slang compiler is then an error message
// here. May be called from any thread.
#pragma once

#include <functional>
#include <string>

#include "program/program.h"

namespace torch_slang {

// Where torch-slangc is, if not in the package beside this library; the environment's TORCH_SLANG_COMPILER goes before
// either.
void set_compiler_path(std::string path);
std::string compiler_path();  // throws c10::Error that says where it was looked for
std::string compiler_stamp();  // another one for another compiler at the same path; throws as compiler_path

// Is given a module's Program without its texts, once or not at all, before those are made.
using OnDescribed = std::function<void(Program description)>;

// Throws CompileError: the source is wrong (Slang's diagnostics follow our sentence), or the compiler crashed, was killed
// or ran longer than TORCH_SLANG_COMPILE_TIMEOUT seconds (default 600); the message then names the kernel it was at. An
// instantiation that fails alone does not throw: its DeviceText carries the error.
Program compile(const CompileRequest& request, const OnDescribed& on_described = {});

}  // namespace torch_slang
