// Turns an operator and a key into the source for a backend: which views are there, where their sizes come from, and what
// the compiled code's marks then say about the kernel.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "op/kernel_table.h"

namespace torch_slang {

// What is known of a backward before it is compiled.
struct KnownUse {
  std::vector<int> scratch_outputs;  // outputs that get memory (others are absent: stored values vanish)
  std::vector<bool> unused;  // by leaf, or empty: inputs whose values another variant was seen not to look at
};

KernelSource specialize(const Operator& op, const KernelKey& key, const KnownUse& known, const KernelOptions& options);

// Outputs that a backward kernel compiled without memory for them was seen to read.
std::vector<int> outputs_read_back(const Operator& op, const KernelKey& key, const Kernel& kernel);

// By leaf: what a derivative's kernel was seen to do with gradients.
std::vector<GradientUse> gradient_uses(const Operator& op, const KernelKey& key, const Kernel& kernel);

// By leaf: inputs whose values a backward kernel was seen not to use. Their memory need not be kept for it.
std::vector<bool> unused_inputs(const Operator& op, const KernelKey& key, const Kernel& kernel);

// Whether a kernel's marks speak of stores to what is no output, or of what cannot be: where the compiler did not see which
// view an access is to, it left the marks of all.
bool may_say_too_much(const Operator& op, const Kernel& kernel);

// Throws CompileError if a functional op's kernel stores to a view that is not an output, or any kernel takes a gradient's
// numbers for those of another type.
void check_written_views(const Operator& op, const KernelKey& key, const Kernel& kernel);

// Throws CompileError if a backward needs what the forward read back from one of these outputs, and Slang cannot tell it.
void check_stored_values(const Operator& op, const KernelKey& key, const std::vector<int>& scratch_outputs);

// The concrete type of a leaf's element under these type arguments.
ElementType element_type(const Element& element, const std::vector<ElementType>& types);

// The type that replicated and recorded gradients of this type are added up in.
ElementType summing_type(ElementType type);

}  // namespace torch_slang
