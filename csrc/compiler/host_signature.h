// The parameters and the result of a [TorchEntryPoint] function as a descriptor. As of a kernel, but a tensor is a
// TorchTensor<T>, and nothing lies in an argument block.
#pragma once

#include <slang.h>

#include "compiler/types.h"
#include "program/program.h"

namespace torch_slang {

// Throws Refusal, naming the parameter and what is wrong with it.
void describe_host_function(Function& function, HostFunction& host, slang::FunctionReflection* reflection,
                            const TypeReader& types);

}  // namespace torch_slang
