// A call of which torch.vmap maps over some arguments: Note [batching rules] in dispatch/vmap.h.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "dispatch/mapped_arguments.h"
#include "dispatch/registered_op.h"

namespace torch_slang {

// Puts results in place of the arguments, those of all samples, in front. `given`: the arguments with their wrappers, for messages.
void call_mapped(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 const c10::OperatorHandle& handle, MappedArguments& arguments, c10::ArrayRef<c10::IValue> given,
                 torch::jit::Stack* stack);

}  // namespace torch_slang
