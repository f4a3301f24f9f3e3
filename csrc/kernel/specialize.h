// Turns an operator and a key into the source for a backend: which views are there, where their sizes come from, and what
// the compiled code's marks then say about the kernel.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "kernel/kernel_key.h"
#include "kernel/loaded_kernel.h"
#include "signature/kernel_options.h"
#include "signature/signature.h"

namespace torch_slang {

using Marks = std::set<std::string>;  // of a kernel: Note [marks] in prelude/mark.h

// What is known of a backward before it is compiled.
struct KnownUse {
  std::vector<int> scratch_outputs;  // outputs that get memory (others are absent: stored values vanish)
  // By leaf, or empty: inputs whose values another variant was seen not to look at.
  std::vector<bool> unused;
  // By leaf, or empty: threads were seen to touch elements of this gradient that are not their own.
  std::vector<bool> shared;
  // By leaf, or empty: threads were seen to ask words for elements that only running tells (Note [words]).
  std::vector<bool> far;
};

KernelSource specialize(const Signature& op, const KernelKey& key, const KnownUse& known, const KernelOptions& options);

// Adds what a kernel compiled with `known` shows beyond it: then it must be compiled again. False if there is nothing. Throws
// CompileError for what cannot be right.
bool learn(const Signature& op, const KernelKey& key, const Marks& marks, KnownUse& known);

// By leaf: gradients that this kernel keeps in registers (Note [own elements] in prelude/own.h).
std::vector<bool> own_leaves(const Signature& op, const KernelKey& key, const KnownUse& known);

// By leaf: what a derivative's kernel was seen to do with gradients. `checked`: the marks of the kernel that will run.
std::vector<GradientUse> gradient_uses(const Signature& op, const KernelKey& key, const Marks& marks,
                                       const Marks& checked);

// By leaf: inputs whose values a backward kernel was seen not to use. Their memory need not be kept for it.
std::vector<bool> unused_inputs(const Signature& op, const KernelKey& key, const Marks& marks);

// Whether a kernel's marks speak of stores to what is no output, or of what cannot be: where the compiler did not see which
// view an access is to, it left the marks of all.
bool may_say_too_much(const Signature& op, const Marks& marks);

// Throws CompileError if a functional op's kernel stores to a view that is not an output, or any kernel takes a gradient's
// numbers for those of another type.
void check_written_views(const Signature& op, const KernelKey& key, const Marks& marks);

}  // namespace torch_slang
