// Compiles and loads the kernels of a kernel's operators, and learns from the compiled code how it uses each view.
#pragma once

#include <memory>

#include "kernels/signature.h"
#include "specialise/kernel_table.h"

namespace torch_slang {

// `kernels`: those that the operator has already, which may say what this one needs not show again. Throws CompileError.
std::shared_ptr<const LoadedKernel> load_kernel(const KernelSignature& op, const KernelKey& key,
                                                const CallContext& context, KernelTable& kernels);

}  // namespace torch_slang
