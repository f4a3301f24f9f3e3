// Calls of kernels: arguments in, results out.
#pragma once

#include "kernels/arguments.h"
#include "kernels/thread_choices.h"
#include "operators/call_context.h"
#include "specialise/kernel_table.h"

namespace torch_slang {

// What calls of one kernel work with.
struct KernelParts {
  const KernelSignature& signature;
  KernelTable& kernels;
  ThreadChoices& thread_choices;
};

// Runs one call on CPU or CUDA tensors.
Results run_kernel(const KernelParts& parts, OpKind kind, c10::ArrayRef<c10::IValue> stack, const CallContext& context);

// The same call's results on the meta device.
Results run_kernel_meta(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

}  // namespace torch_slang
