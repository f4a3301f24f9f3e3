#include "op/run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

#include "op/launcher.h"

namespace torch_slang {

namespace {

at::Tensor new_output(const Operator& op, int leaf, const Arguments& arguments, c10::SymIntArrayRef sizes) {
  const Leaf& self = op.function.leaves[leaf];
  const auto options = arguments.options(op, leaf);
  if (self.fill) return at::full_symint(sizes, *self.fill, options);
  if (op.options.debug.value_or(false) && c10::isFloatingType(options.dtype().toScalarType())) {
    return at::full_symint(sizes, std::numeric_limits<double>::quiet_NaN(), options);
  }
  return at::empty_symint(sizes, options);
}

template <class Int>
Results new_outputs(const Operator& op, const Arguments& arguments, const Bound<Int>& bound) {
  Results results;
  for (const int leaf : op.outputs) {
    const Sizes<Int> sizes = op.shapes.output_sizes<Int>(leaf, bound);
    const c10::SmallVector<c10::SymInt, 5> symbolic(sizes.begin(), sizes.end());
    results.push_back(new_output(op, leaf, arguments, symbolic));
  }
  return results;
}

void set_inputs(const Arguments& arguments, Launcher& launcher) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (arguments.tensors[i].defined()) launcher.set_primal(static_cast<int>(i), arguments.tensors[i]);
  }
}

Results run_forward(const Operator& op, const Arguments& arguments, const Bound<int64_t>& bound) {
  Launcher launcher(op, OpKind::Forward, arguments, bound);
  set_inputs(arguments, launcher);
  Results results = new_outputs(op, arguments, bound);
  for (size_t i = 0; i < results.size(); ++i) launcher.set_primal(op.outputs[i], results[i]);
  launcher.launch(*launcher.kernel()->kernel);
  return results;
}

// Note [gradient memory]
//   Wanted gradients start as zeros and are added to; unwanted ones have no memory and no stores. A kernel takes the
//   gradient of each stored output element and leaves zero behind, so it works on a copy of the caller's. A gradient of a
//   CPU scalar beside CUDA views is accumulated on the device and moved when it is complete.
Results run_backward(const Operator& op, const Arguments& arguments, const Bound<int64_t>& bound) {
  Results results(op.differentiable.size());
  if (std::none_of(arguments.mask.begin(), arguments.mask.end(), [](bool wanted) { return wanted; })) return results;
  Launcher launcher(op, OpKind::Backward, arguments, bound);
  set_inputs(arguments, launcher);
  Results taken;
  for (const int leaf : op.grad_outputs) {
    const at::Tensor& grad = arguments.grad_outputs[leaf];
    if (!grad.defined()) continue;
    taken.push_back(grad.clone(at::MemoryFormat::Contiguous));
    launcher.set_gradient(leaf, taken.back());
  }
  Results on_device(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!arguments.mask[i]) continue;
    const int leaf = op.differentiable[i];
    on_device[i] = at::zeros(arguments.tensors[leaf].sizes(), arguments.options(op, leaf));
    launcher.set_gradient(leaf, on_device[i]);
  }
  const auto loaded = launcher.kernel();
  launcher.check_skipped(*loaded);
  Results scratch;
  for (const int leaf : loaded->scratch_outputs) {
    const Sizes<int64_t> sizes = op.shapes.output_sizes<int64_t>(leaf, bound);
    const c10::SmallVector<c10::SymInt, 5> symbolic(sizes.begin(), sizes.end());
    scratch.push_back(new_output(op, leaf, arguments, symbolic));
    launcher.set_primal(leaf, scratch.back());
  }
  launcher.launch(*loaded->kernel);
  for (size_t i = 0; i < results.size(); ++i) {
    if (on_device[i].defined()) results[i] = on_device[i].to(arguments.tensors[op.differentiable[i]].device());
  }
  return results;
}

void run_launch(const Operator& op, const Arguments& arguments, const Bound<int64_t>& bound) {
  Launcher launcher(op, OpKind::Launch, arguments, bound);
  set_inputs(arguments, launcher);
  LaunchShape shape;
  for (size_t i = 0; i < 3; ++i) {
    shape.block[i] = static_cast<uint32_t>(arguments.block_size[i]);
    shape.grid[i] = static_cast<uint32_t>(arguments.grid_size[i]);
  }
  launcher.launch(*launcher.kernel()->kernel, shape);
}

// What a real launch would refuse when it makes its views, as far as sizes are known.
void check_visible_views(const Operator& op, OpKind kind, const Arguments& arguments, const Bound<c10::SymInt>& bound) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    const at::Tensor& tensor = arguments.tensors[i];
    if (!tensor.defined() || leaf.kind != LeafKind::View) continue;
    const ViewShape& shape = op.shapes.view(static_cast<int>(i));
    const size_t outer = tensor.dim() - leaf.element.shape.size();
    const size_t leading = shape.leading ? outer - shape.dims.size() : 0;
    check_visible_rank(op.qualified(kind), leaf, outer - leading + (shape.leading ? 1 : 0), tensor.sym_sizes());
    if (shape.leading) {
      check_visible_size(op.qualified(kind), leaf, 0, bound.symbols[kLeadingSymbol].maybe_as_int().value_or(0));
    }
    for (size_t d = leading; d < outer; ++d) {
      check_visible_size(op.qualified(kind), leaf, d - leading + (shape.leading ? 1 : 0),
                         tensor.sym_sizes()[d].maybe_as_int().value_or(0));
    }
  }
}

}  // namespace

Results run(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const Arguments arguments = read_arguments(op, kind, stack);
  const Bound<int64_t> bound = bind_arguments<int64_t>(op, kind, arguments);
  const c10::OptionalDeviceGuard guard(arguments.device);
  switch (kind) {
    case OpKind::Forward: return run_forward(op, arguments, bound);
    case OpKind::Backward: return run_backward(op, arguments, bound);
    case OpKind::Launch: run_launch(op, arguments, bound); return {};
  }
  TORCH_INTERNAL_ASSERT(false, "unknown kind of op");
}

Results run_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const Arguments arguments = read_arguments(op, kind, stack);
  const Bound<c10::SymInt> bound = bind_arguments<c10::SymInt>(op, kind, arguments);
  check_visible_views(op, kind, arguments, bound);
  if (kind == OpKind::Forward) {
    op.shapes.launch_total<c10::SymInt>(bound);
    return new_outputs(op, arguments, bound);
  }
  Results results;
  if (kind == OpKind::Backward) {
    for (size_t i = 0; i < op.differentiable.size(); ++i) {
      const at::Tensor& input = arguments.tensors[op.differentiable[i]];
      results.push_back(arguments.mask[i] ? at::empty_symint(input.sym_sizes(), input.options()) : at::Tensor());
    }
  }
  return results;
}

}  // namespace torch_slang
