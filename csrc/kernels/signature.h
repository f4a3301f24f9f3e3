// The signature of a kernel: with the shapes that its views are declared to have, where its arguments lie in the argument
// block, and what a thread of its launch has of each view.
#pragma once

#include "kernels/device_dims.h"
#include "kernels/shape_plan.h"
#include "kernels/thread_share.h"
#include "operators/layout.h"
#include "operators/signature.h"

namespace torch_slang {

struct KernelSignature final : Signature {
  // `names`: of the module's kernels and functions, which launch operators ("sqr_bwd") leave to them.
  KernelSignature(std::string ns, Function function, const Constants& constants, std::shared_ptr<TextSource> texts,
                  KernelOptions options, const std::set<std::string>& names = {}, bool multiplies = false);

  const ShapePlan shapes;
  const DeviceDims dims;
  const Layout layout;
  std::vector<ThreadShare> shares;  // by leaf; of views alone
  // Blocks multiply matrices (Note [matrix kernels] in prelude/mma.h), so tuned variables are tiles of a GPU's.
  const bool multiplies;
};

}  // namespace torch_slang
