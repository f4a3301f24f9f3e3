// Describes the parameters and the result of a [TorchEntryPoint] function. Tensors are TorchTensor<T>, and there is no argument
// block.
#pragma once

#include <slang.h>

#include <string>
#include <vector>

#include "compiler/reflect/types.h"
#include "program/program.h"

namespace torch_slang {

// Throws Refusal, naming the parameter and its fault.
void describe_host_function(Function& function, HostFunction& host, slang::FunctionReflection* reflection,
                            const TypeReader& types);

// Slang emits host functions by their names without namespaces.
std::string emitted_name(const Function& function);

// Refuses those whose emitted names are equal.
void refuse_equal_names(std::vector<HostFunction>& functions);

}  // namespace torch_slang
