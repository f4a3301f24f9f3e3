#include "kernel/elementwise_kernel.h"

#include "common/error.h"
#include "kernel/elementwise_variant.h"
#include "program/intrinsics.h"

namespace torch_slang {

namespace {

// Whether a plain function does what checks look at. It has no views.
bool has_checks(const DeviceText& text, Checks checks) {
  using namespace intrinsics;
  return uses(text, {kIterate, kIndex, kVectorElement, kVectorElementPointer}) ||
         (checks == Checks::All && uses(text, {kDivide, kRemainder}));
}

}  // namespace

KernelSource specialize(const ElementwiseSignature& op, const KernelKey& key) {
  KernelSource source;
  source.op = op.qualified(key.kind);
  source.text = op.text(key.kind, key.types, key.sizes);
  if (source.text.waves || source.text.barriers) {
    throw_compile_error(source.op, ": a plain function runs for each element on its own, but this one uses ",
                        source.text.barriers ? "group-shared memory or barriers" : "wave operations",
                        ": make it a kernel");
  }
  source.view_count = op.layout.view_count();
  source.slot_count = op.layout.slot_count();
  source.dim_count = op.layout.dim_count();
  source.make_view = "return tsl::present_view(args, k);";
  source.independent_views = key.independent;
  source.map = map_loop(op, key.kind, ElementwiseVariant(key.variant), key.sizes);
  source.fast_math = op.options.fast_math;
  if (has_checks(source.text, op.options.checks(key.device))) source.checks = op.options.checks(key.device);
  source.polls = op.options.polls(key.device);
  return source;
}

std::shared_ptr<const LoadedKernel> load_kernel(const ElementwiseSignature& op, const KernelKey& key) {
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->kernel = backend_for(key.device.type()).load(specialize(op, key), key.device);
  return loaded;
}

}  // namespace torch_slang
