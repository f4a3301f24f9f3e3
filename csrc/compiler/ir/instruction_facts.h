// What several edits ask of a module's instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/module_edits.h"

namespace torch_slang {

// The type of a value, without attributes and without what says that it is a constant; or -1.
int64_t plain_type(const ModuleEdits& module, int64_t value);
// Whole numbers and bools, and vectors and matrices of them.
bool is_constant_type(const ModuleEdits& module, int64_t type);
// What stands in a function or generic, without its decorations and parameters.
std::vector<int64_t> body_of(const ModuleEdits& module, int64_t function);
// The function that all specializations of a callee share; or another instruction.
int64_t function_of(const ModuleEdits& module, int64_t callee);
// Whether one of an instruction's children, such as its decorations, has the opcode.
bool has_child(const ModuleEdits& module, int64_t at, int32_t opcode);
// Whether an instruction is a loop with [ForceUnroll], which Slang unrolls before it makes derivatives.
bool is_unrolled_loop(const ModuleEdits& module, int64_t at);
// Whether an instruction stores to the address that is its first operand.
bool is_store(const ModuleEdits& module, int64_t at);
// The variable or parameter in which an address lies.
int64_t variable_of(const ModuleEdits& module, int64_t address);

}  // namespace torch_slang
