#include "call/run.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

#include "arguments/new_tensor.h"
#include "call/elementwise/elementwise.h"
#include "call/gradients.h"
#include "call/launcher.h"
#include "operator/tuner.h"

namespace torch_slang {

namespace {

at::Tensor new_output(const Operator& op, int leaf, const Arguments& arguments, c10::SymIntArrayRef sizes) {
  const Leaf& self = op.function.leaves[leaf];
  const auto options = arguments.options(op, leaf);
  if (self.fill) return at::full_symint(sizes, *self.fill, options);
  const bool floating = c10::isFloatingType(options.dtype().toScalarType());
  if (are_outputs_spoiled() && !floating) return at::full_symint(sizes, 77, options);
  if (floating && (op.options.debug.value_or(false) || are_outputs_spoiled())) {
    return at::full_symint(sizes, std::numeric_limits<double>::quiet_NaN(), options);
  }
  return new_empty(sizes, options);
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

// The virtual threads of a call's kernel, measured if need be: the call is then tried with its own arguments.
ChosenThreads choose_threads(const Operator& op, OpKind kind, const Arguments& arguments, const KernelKey& key,
                             const ThreadFacts& facts) {
  return op.thread_choices.get(op, op.kernels, key, facts, arguments.stack,
                               [&](c10::ArrayRef<c10::IValue> stack) { return run(op, kind, stack); });
}

Results run_forward(const Operator& op, const Arguments& arguments, const Bound<int64_t>& bound) {
  Launcher launcher(op, OpKind::Forward, arguments, bound);
  set_inputs(arguments, launcher);
  Results results = new_outputs(op, arguments, bound);
  for (size_t i = 0; i < results.size(); ++i) launcher.set_primal(op.outputs[i], results[i]);
  const auto loaded = launcher.kernel([&](const KernelKey& key, const ThreadFacts& facts) {
    return choose_threads(op, OpKind::Forward, arguments, key, facts);
  });
  launcher.launch(*loaded->kernel, launcher.shape(*loaded->kernel));
  return results;
}

// Of an output that nobody has used. One element of memory.
at::Tensor zero_gradient(const Operator& op, int leaf, const Arguments& arguments, const Bound<int64_t>& bound) {
  return at::zeros({1}, arguments.options(op, leaf)).expand(op.shapes.output_sizes<int64_t>(leaf, bound));
}

Results run_backward(const Operator& op, const Arguments& arguments, const Bound<int64_t>& bound) {
  Results results(op.differentiable.size());
  if (std::none_of(arguments.mask.begin(), arguments.mask.end(), [](bool wanted) { return wanted; })) return results;
  Launcher launcher(op, OpKind::Backward, arguments, bound);
  set_inputs(arguments, launcher);
  Gradients gradients(op, OpKind::Backward, arguments, launcher);
  for (const int leaf : op.grad_outputs) {
    gradients.give(leaf, arguments.gradients[leaf].defined() ? arguments.gradients[leaf]
                                                             : zero_gradient(op, leaf, arguments, bound));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (arguments.mask[i]) gradients.want(op.differentiable[i]);
  }
  const auto choose = [&](const KernelKey& key, const ThreadFacts& facts) {
    return choose_threads(op, OpKind::Backward, arguments, key, facts);
  };
  auto loaded = launcher.kernel(choose);
  while (gradients.take_copies(*loaded)) loaded = launcher.kernel(choose);
  Results scratch;
  for (const int leaf : loaded->scratch_outputs) {
    const Sizes<int64_t> sizes = op.shapes.output_sizes<int64_t>(leaf, bound);
    const c10::SmallVector<c10::SymInt, 5> symbolic(sizes.begin(), sizes.end());
    scratch.push_back(new_output(op, leaf, arguments, symbolic));
    launcher.set_primal(leaf, scratch.back());
  }
  const LaunchShape shape = launcher.shape(*loaded->kernel);
  gradients.prepare(*loaded, shape);
  launcher.launch(*loaded->kernel, shape);
  gradients.finish();
  for (size_t i = 0; i < results.size(); ++i) results[i] = gradients.take_result(op.differentiable[i]);
  return results;
}

// Threads take gradients and leave zero behind: elements that are one memory would get one another's.
void check_overlap(const Operator& op, OpKind kind, int leaf, const at::Tensor& gradient) {
  TORCH_CHECK(at::has_internal_overlap(gradient) != at::MemOverlap::Yes, op.qualified(kind),
              ": expected the elements of grad_", op.function.leaves[leaf].name,
              " to have memory of their own, but it is expanded, with strides ", gradient.strides(),
              ": pass grad.contiguous()");
}

void run_launch(const Operator& op, OpKind kind, const Arguments& arguments, const Bound<int64_t>& bound) {
  Launcher launcher(op, kind, arguments, bound);
  Gradients gradients(op, kind, arguments, launcher);
  set_inputs(arguments, launcher);
  for (size_t i = 0; i < arguments.gradients.size(); ++i) {
    const at::Tensor& gradient = arguments.gradients[i];
    const int leaf = static_cast<int>(i);
    if (!gradient.defined()) continue;
    if (kind == OpKind::LaunchJvp) {
      launcher.set_tangent(leaf, gradient);
    } else {
      check_overlap(op, kind, leaf, gradient);
      gradients.want(leaf, gradient);
    }
  }
  LaunchShape shape;
  for (size_t i = 0; i < 3; ++i) {
    shape.block[i] = static_cast<uint32_t>(arguments.block_size[i]);
    shape.grid[i] = static_cast<uint32_t>(arguments.grid_size[i]);
  }
  const auto choose = [&](const KernelKey& key, const ThreadFacts& facts) {
    return choose_threads(op, kind, arguments, key, facts);
  };
  const auto loaded = launcher.kernel(choose, &shape);
  gradients.prepare(*loaded, shape);
  launcher.launch(*loaded->kernel, shape);
  gradients.finish();
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
  if (op.is_elementwise()) return run_elementwise(op, kind, stack);
  if (op.tuner != nullptr) return op.tuner->run(op, kind, stack, run);
  const Arguments arguments = read_arguments(op, kind, stack);
  const Bound<int64_t> bound = bind_arguments<int64_t>(op, kind, arguments);
  const c10::OptionalDeviceGuard guard(arguments.device);
  switch (kind) {
    case OpKind::Forward: return run_forward(op, arguments, bound);
    case OpKind::Backward: return run_backward(op, arguments, bound);
    case OpKind::Launch:
    case OpKind::LaunchJvp:
    case OpKind::LaunchBackward: run_launch(op, kind, arguments, bound); break;
  }
  return {};
}

Results run_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  if (op.is_elementwise()) return run_elementwise_meta(op, kind, stack);
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
