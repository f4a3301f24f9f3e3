// A call for each sample of torch.vmap, one after the other: for functions that see tensors whole, whose tensors no broadcasting puts
// beside each other.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "dispatch/mapped_arguments.h"
#include "operator/operator.h"

namespace torch_slang {

// Whether broadcasting will not do for this call.
bool needs_loop(const Operator& op, OpKind kind, const MappedArguments& arguments);

// Puts results in place of the arguments: of all samples, in front.
void call_in_loop(const c10::OperatorHandle& handle, const Operator& op, OpKind kind, const MappedArguments& arguments,
                  torch::jit::Stack* stack);

}  // namespace torch_slang
