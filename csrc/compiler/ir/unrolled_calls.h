// Calls in loops that Slang unrolls.
#pragma once

#include <cstdint>
#include <map>

#include "compiler/ir/module_edits.h"

namespace torch_slang {

// By call: how often it follows on itself, where each iteration of a loop with [ForceUnroll] takes what it gave in the one before.
// Others are left out.
std::map<int64_t, double> unrolled_calls(const ModuleEdits& module);

}  // namespace torch_slang
