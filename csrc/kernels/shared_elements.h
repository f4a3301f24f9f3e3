// What the threads of one kernel share of its views, and how much each has to do: decided by shapes (kernels/thread_share.h) and by
// what the kernel is specialised for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/signature.h"
#include "specialise/kernel_key.h"

namespace torch_slang {

// Why threads have no elements of this view to themselves; empty if they may.
std::string why_not_own(const KernelSignature& op, int leaf);

// Bytes that a thread is likely to read: of each view that is read its own elements, or one.
int64_t own_bytes(const KernelSignature& op, OpKind kind, const std::vector<ElementType>& types);

// The axis along which threads share elements of a gradient, for each of those that are wanted: the outermost such axis, or
// -1.
int shared_axis(const KernelSignature& op, const KernelKey& key);

// Whether threads along the axis share elements of this leaf's gradient, and add them up in registers.
bool is_kept_shared(const KernelSignature& op, int leaf, const VirtualThreads& threads);

// How many threads along x have together as much of each view as fills whole vectors; 1 if there are none.
int lanes_of_vectors(const KernelSignature& op, OpKind kind, const std::vector<ElementType>& types);

}  // namespace torch_slang
