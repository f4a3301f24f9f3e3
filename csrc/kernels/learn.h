// What a kernel's compiled code showed (specialise/view_use.h) that changes the kernel: it is compiled again with what was learned,
// until nothing more shows.
#pragma once

#include <vector>

#include "kernels/specialize.h"
#include "specialise/kernel_key.h"
#include "specialise/view_use.h"

namespace torch_slang {

// Adds what a kernel compiled with `known` shows beyond it: then it must be compiled again. False if there is nothing. Throws
// CompileError for what cannot be right.
bool learn(const KernelSignature& op, const KernelKey& key, const Marks& marks, KnownUse& known);

// By leaf: inputs whose values a backward kernel was seen not to use. Their memory need not be kept for it. `checked`: the marks
// of the kernel that will run, which may load what another does not.
std::vector<bool> unused_inputs(const KernelSignature& op, const KernelKey& key, const Marks& marks,
                                const Marks& checked);

// Throws CompileError if a kernel takes a gradient's numbers for those of another type, or if a functional op's kernel stores to a
// view that is not an output.
void check_written_views(const KernelSignature& op, const KernelKey& key, const Marks& marks);

}  // namespace torch_slang
