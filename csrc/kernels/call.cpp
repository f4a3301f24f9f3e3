#include "kernels/call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

#include "kernels/launch.h"
#include "kernels/sample_memory.h"
#include "kernels/view_gradients.h"
#include "operators/new_tensor.h"

namespace torch_slang {
namespace {

// `is_marked`: begins as numbers that stand out.
at::Tensor new_output(const KernelSignature& op, int leaf, const Arguments& arguments, c10::SymIntArrayRef sizes,
                      bool is_marked) {
  const Leaf& self = op.function.leaves[leaf];
  const auto options = arguments.options(self);
  if (self.view().fill) return at::full_symint(sizes, *self.view().fill, options);
  const bool floating = c10::isFloatingType(options.dtype().toScalarType());
  if (is_marked && !floating) return at::full_symint(sizes, 77, options);
  if (floating && (op.options.debug.value_or(false) || is_marked)) {
    return at::full_symint(sizes, std::numeric_limits<double>::quiet_NaN(), options);
  }
  return new_empty(sizes, options);
}

// Of an output or its gradient, with the dimensions of samples in front.
template <class Int>
c10::SymDimVector output_sizes(const KernelSignature& op, int leaf, const Arguments& arguments,
                               const Bound<Int>& bound) {
  const Sizes<Int> own = op.shapes.output_sizes<Int>(leaf, bound);
  c10::SymDimVector sizes = arguments.samples;
  sizes.append(own.begin(), own.end());
  return sizes;
}

template <class Int>
Results new_outputs(const KernelSignature& op, const Arguments& arguments, const Bound<Int>& bound, bool is_marked) {
  Results results;
  for (const int leaf : op.outputs) {
    results.push_back(new_output(op, leaf, arguments, output_sizes(op, leaf, arguments, bound), is_marked));
  }
  return results;
}

// One call on real tensors.
class KernelCall {
 public:
  KernelCall(const KernelParts& parts, OpKind kind, const Arguments& arguments, const CallContext& context)
      : parts_(parts),
        op_(parts.signature),
        kind_(kind),
        arguments_(arguments),
        context_(context),
        call_{op_, kind, arguments, bind_arguments<int64_t>(op_, kind, arguments)},
        guard_(arguments.device),
        memory_(call_, known_backward()) {}

  Results forward();
  Results backward();
  void launch();

 private:
  void set_inputs();
  std::shared_ptr<const LoadedKernel> known_backward() const;
  ChosenKernel kernel(const LaunchShape* launch = nullptr);
  at::Tensor zero_gradient(int leaf) const;
  Results gradients_without_elements() const;
  Results scratch_outputs(const LoadedKernel& loaded);
  Results give_hidden_gradients(const LoadedKernel& loaded, Gradients& gradients);
  void check_overlap(int leaf, const at::Tensor& gradient) const;
  void set_gradients(Gradients& gradients);
  LaunchShape given_shape() const;

  const KernelParts& parts_;
  const KernelSignature& op_;
  const OpKind kind_;
  const Arguments& arguments_;
  const CallContext& context_;
  const BoundCall call_;
  const c10::OptionalDeviceGuard guard_;
  LaunchMemory memory_;
};

std::shared_ptr<const LoadedKernel> KernelCall::known_backward() const {
  return kind_ == OpKind::Backward ? parts_.kernels.any_backward(arguments_.types, arguments_.device) : nullptr;
}

void KernelCall::set_inputs() {
  for (size_t i = 0; i < arguments_.tensors.size(); ++i) {
    if (arguments_.tensors[i].defined()) memory_.set_primal(static_cast<int>(i), arguments_.tensors[i]);
  }
}

// With virtual threads that are measured if need be: the call is then tried with its own arguments.
ChosenKernel KernelCall::kernel(const LaunchShape* launch) {
  const auto try_call = [&](c10::ArrayRef<c10::IValue> stack, const CallContext& context) {
    return run_kernel(parts_, kind_, stack, context);
  };
  const auto choose = [&](const KernelKey& key, const ThreadFacts& facts) {
    return parts_.thread_choices.get(op_, parts_.kernels, key, facts, arguments_.stack, context_, try_call);
  };
  return choose_kernel(memory_, parts_.kernels, context_, choose, launch);
}

Results KernelCall::forward() {
  if (sample_count(arguments_) == 0) return new_outputs(op_, arguments_, call_.bound, context_.marks_outputs);
  set_inputs();  // first: it refuses inputs that are too large, whose outputs would take as much memory
  Results results = new_outputs(op_, arguments_, call_.bound, context_.marks_outputs);
  for (size_t i = 0; i < results.size(); ++i) memory_.set_primal(op_.outputs[i], results[i]);
  const ChosenKernel chosen = kernel();
  const Results scratch = scratch_outputs(*chosen.loaded);
  memory_.launch(chosen, launch_shape(call_, chosen.kernel()));
  return results;
}

// Of an output that nobody has used. One element of memory.
at::Tensor KernelCall::zero_gradient(int leaf) const {
  const auto options = arguments_.options(op_.function.leaves[leaf]);
  return at::zeros({1}, options).expand_symint(output_sizes(op_, leaf, arguments_, call_.bound));
}

// Memory of outputs whose values the kernel reads back, but nobody gets.
Results KernelCall::scratch_outputs(const LoadedKernel& loaded) {
  Results scratch;
  for (const int leaf : loaded.scratch_outputs) {
    const auto sizes = output_sizes(op_, leaf, arguments_, call_.bound);
    scratch.push_back(new_output(op_, leaf, arguments_, sizes, context_.marks_outputs));
    memory_.set_primal(leaf, scratch.back());
  }
  return scratch;
}

// What a kernel reads of a hidden output has a gradient, which the thread that stores it takes.
Results KernelCall::give_hidden_gradients(const LoadedKernel& loaded, Gradients& gradients) {
  Results zeros;
  for (const int leaf : loaded.scratch_outputs) {
    const Leaf& self = op_.function.leaves[leaf];
    if (!self.is_hidden || !self.diff_view()) continue;
    zeros.push_back(at::zeros_symint(output_sizes(op_, leaf, arguments_, call_.bound), arguments_.options(self)));
    gradients.give(leaf, zeros.back());
  }
  return zeros;
}

Results KernelCall::gradients_without_elements() const {
  Results results(op_.differentiable.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& input = arguments_.tensors[op_.differentiable[i]];
    if (arguments_.mask[i]) results[i] = at::zeros(input.sizes(), input.options());
  }
  return results;
}

Results KernelCall::backward() {
  Results results(op_.differentiable.size());
  if (sample_count(arguments_) == 0) return gradients_without_elements();
  set_inputs();
  Gradients gradients(memory_);
  for (const int leaf : op_.grad_outputs) {
    gradients.give(leaf, arguments_.gradients[leaf].defined() ? arguments_.gradients[leaf] : zero_gradient(leaf));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (arguments_.mask[i]) gradients.want(op_.differentiable[i]);
  }
  ChosenKernel chosen = kernel();
  const Results hidden = give_hidden_gradients(*chosen.loaded, gradients);
  while (gradients.copy_given(*chosen.loaded)) chosen = kernel();
  const Results scratch = scratch_outputs(*chosen.loaded);
  const LaunchShape shape = launch_shape(call_, chosen.kernel());
  gradients.prepare(*chosen.loaded, shape);
  memory_.launch(chosen, shape);
  gradients.finish();
  for (size_t i = 0; i < results.size(); ++i) results[i] = gradients.take_result(op_.differentiable[i]);
  return results;
}

// Threads take gradients and leave zero behind: elements that are one memory would get one another's.
void KernelCall::check_overlap(int leaf, const at::Tensor& gradient) const {
  TORCH_CHECK(at::has_internal_overlap(gradient) != at::MemOverlap::Yes, op_.qualified(kind_),
              ": expected the elements of grad_", op_.function.leaves[leaf].name,
              " to have memory of their own, but it is expanded, with strides ", gradient.strides(),
              ": pass grad.contiguous()");
}

void KernelCall::set_gradients(Gradients& gradients) {
  for (size_t i = 0; i < arguments_.gradients.size(); ++i) {
    const at::Tensor& gradient = arguments_.gradients[i];
    const int leaf = static_cast<int>(i);
    if (!gradient.defined()) continue;
    if (kind_ == OpKind::LaunchJvp) {
      memory_.set_tangent(leaf, gradient);
    } else {
      check_overlap(leaf, gradient);
      gradients.want(leaf, gradient);
    }
  }
}

LaunchShape KernelCall::given_shape() const {
  LaunchShape shape;
  for (size_t i = 0; i < 3; ++i) {
    shape.block[i] = static_cast<uint32_t>(arguments_.block_size[i]);
    shape.grid[i] = static_cast<uint32_t>(arguments_.grid_size[i]);
  }
  return shape;
}

void KernelCall::launch() {
  if (sample_count(arguments_) == 0) return;
  Gradients gradients(memory_);
  set_inputs();
  set_gradients(gradients);
  const LaunchShape shape = given_shape();
  const ChosenKernel chosen = kernel(&shape);
  gradients.prepare(*chosen.loaded, shape);
  memory_.launch(chosen, shape);
  gradients.finish();
}

// What a real launch would refuse when it makes its views, as far as sizes are known.
void check_visible_views(const KernelSignature& op, OpKind kind, const Arguments& arguments,
                         const Bound<c10::SymInt>& bound) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    const at::Tensor& tensor = arguments.tensors[i];
    if (!tensor.defined() || !leaf.is_view()) continue;
    const ViewShape& shape = op.shapes.view(static_cast<int>(i));
    const auto sizes = tensor.sym_sizes().slice(arguments.samples.size());
    const size_t outer = sizes.size() - leaf.element.shape.size();
    const size_t leading = shape.leading ? outer - shape.dims.size() : 0;
    check_visible_rank(op.qualified(kind), leaf, outer - leading + (shape.leading ? 1 : 0), sizes);
    if (shape.leading) {
      check_visible_size(op.qualified(kind), leaf, 0, bound.symbols[kLeadingSymbol].maybe_as_int().value_or(0));
    }
    for (size_t d = leading; d < outer; ++d) {
      check_visible_size(op.qualified(kind), leaf, d - leading + (shape.leading ? 1 : 0),
                         sizes[d].maybe_as_int().value_or(0));
    }
  }
}

bool wants_nothing(const Arguments& arguments) {
  return std::none_of(arguments.mask.begin(), arguments.mask.end(), [](bool wanted) { return wanted; });
}

}  // namespace

Results run_kernel(const KernelParts& parts, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                   const CallContext& context) {
  const Arguments arguments = read_arguments(parts.signature, kind, stack);
  if (kind == OpKind::Backward && wants_nothing(arguments)) {
    bind_arguments<int64_t>(parts.signature, kind, arguments);  // wrong arguments are an error all the same
    return Results(parts.signature.differentiable.size());
  }
  KernelCall call(parts, kind, arguments, context);
  switch (kind) {
    case OpKind::Forward: return call.forward();
    case OpKind::Backward: return call.backward();
    case OpKind::Launch:
    case OpKind::LaunchJvp:
    case OpKind::LaunchBackward: call.launch(); break;
  }
  return {};
}

Results run_kernel_meta(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const Arguments arguments = read_arguments(op, kind, stack);
  const Bound<c10::SymInt> bound = bind_arguments<c10::SymInt>(op, kind, arguments);
  check_visible_views(op, kind, arguments, bound);
  if (kind == OpKind::Forward) {
    op.shapes.launch_total<c10::SymInt>(bound);
    return new_outputs(op, arguments, bound, /*is_marked=*/false);
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
