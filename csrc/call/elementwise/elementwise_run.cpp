// Calls of elementwise functions: forward, backward, and into given outputs.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "arguments/new_tensor.h"
#include "call/elementwise/elementwise_call.h"
#include "kernel/view_packing.h"

namespace torch_slang {
namespace {

template <class Int>
OuterShape<Int> with_element(const OuterShape<Int>& outer, const ElementwiseArguments& arguments, const Leaf& leaf) {
  OuterShape<Int> sizes = outer;
  for (const int64_t n : arguments.element_shape(leaf)) sizes.push_back(Int(n));
  return sizes;
}

c10::TensorOptions options_of(const ElementwiseArguments& arguments, const Leaf& leaf) {
  return c10::TensorOptions().dtype(scalar_type(arguments.type_of(leaf))).device(arguments.device);
}

void load_inputs(const Operator& op, const ElementwiseArguments& arguments, ElementwiseCall& call) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (arguments.tensors[i].defined() && !op.function.leaves[i].is_output) {
      call.load(static_cast<int>(i), arguments.tensors[i]);
    }
  }
}

void compute(const Operator& op, OpKind kind, const ElementwiseArguments& arguments, const OuterShape<int64_t>& shape,
             const Results& outputs) {
  if (c10::multiply_integers(shape) == 0) return;
  ElementwiseCall call(op, kind, arguments, shape);
  load_inputs(op, arguments, call);
  for (size_t i = 0; i < outputs.size(); ++i) call.store(op.outputs[i], outputs[i]);
  call.run();
}

Results forward(const Operator& op, const ElementwiseArguments& arguments, const OuterShape<int64_t>& shape) {
  Results results;
  for (const int output : op.outputs) {
    const Leaf& leaf = op.function.leaves[output];
    results.push_back(new_empty(with_element(shape, arguments, leaf), options_of(arguments, leaf)));
  }
  compute(op, OpKind::Forward, arguments, shape, results);
  return results;
}

// Whether some memory is certainly both's. Where that is too hard to say they are taken for interleaved.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (!may_overlap(a, b)) return false;
  return at::get_overlap_status(a, b) != at::MemOverlapStatus::TooHard || a.const_data_ptr() == b.const_data_ptr();
}

// What is given to be written must have room for every element of every output.
void check_given(const Operator& op, const ElementwiseArguments& arguments) {
  const auto& leaves = op.function.leaves;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const at::Tensor& given = arguments.tensors[op.outputs[i]];
    const std::string& name = leaves[op.outputs[i]].name;
    TORCH_CHECK(at::has_internal_overlap(given) != at::MemOverlap::Yes, op.qualified(OpKind::Launch), ": expected ",
                name, " to have memory of its own for each element, but it is expanded, with strides ",
                given.strides());
    for (size_t k = 0; k < i; ++k) {
      TORCH_CHECK(!share_memory(given, arguments.tensors[op.outputs[k]]), op.qualified(OpKind::Launch), ": expected ",
                  leaves[op.outputs[k]].name, " and ", name, " to be tensors apart, but they share memory");
    }
  }
}

// A given tensor may be written in place unless its elements lie otherwise than a new one's, or are still to be read
// as other elements of an argument: one with elements of another rank has them elsewhere even in the same memory.
bool can_be_written(const Operator& op, const ElementwiseArguments& arguments, size_t output) {
  const auto& leaves = op.function.leaves;
  const at::Tensor& tensor = arguments.tensors[output];
  if (!tensor.is_contiguous() || tensor.is_neg()) return false;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const at::Tensor& other = arguments.tensors[i];
    if (i == output || !other.defined() || !may_overlap(tensor, other)) continue;
    if (leaves[i].is_output || leaves[i].element.shape.size() != leaves[output].element.shape.size() ||
        at::get_overlap_status(tensor, other) != at::MemOverlapStatus::Full)
      return false;
  }
  return true;
}

void forward_into(const Operator& op, const ElementwiseArguments& arguments, const OuterShape<int64_t>& shape) {
  check_given(op, arguments);
  Results outputs;
  for (const int output : op.outputs) {
    const at::Tensor& given = arguments.tensors[output];
    outputs.push_back(can_be_written(op, arguments, output) ? given : new_empty(given.sizes(), given.options()));
  }
  compute(op, OpKind::Launch, arguments, shape, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& given = arguments.tensors[op.outputs[i]];
    if (!outputs[i].is_same(given)) given.copy_(outputs[i]);
  }
}

Results backward(const Operator& op, const ElementwiseArguments& arguments, const OuterShape<int64_t>& shape) {
  Results results(op.differentiable.size());
  ElementwiseCall call(op, OpKind::Backward, arguments, shape);
  bool any = false;
  // Integers where T has become a floating-point type have no gradient, nor does PyTorch ask for one.
  const auto is_wanted = [&](size_t i) {
    return arguments.mask[i] && c10::isFloatingType(arguments.tensors[op.differentiable[i]].scalar_type());
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!is_wanted(i)) continue;
    call.want(op.differentiable[i]);
    any = true;
  }
  if (!any) return results;
  if (c10::multiply_integers(shape) == 0) {
    for (size_t i = 0; i < results.size(); ++i) {
      const at::Tensor& tensor = arguments.tensors[op.differentiable[i]];
      if (is_wanted(i)) results[i] = at::zeros(tensor.sizes(), tensor.options());
    }
    return results;
  }
  load_inputs(op, arguments, call);
  for (const int output : op.grad_outputs) call.load(output, arguments.gradients[output]);
  call.run();
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_wanted(i)) results[i] = call.gradient(op.differentiable[i]);
  }
  return results;
}

}  // namespace

Results run_elementwise(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const ElementwiseArguments arguments = read_elementwise(op, kind, stack);
  const auto shape = broadcast<int64_t>(op, kind, arguments);
  const c10::OptionalDeviceGuard guard(arguments.device);
  switch (kind) {
    case OpKind::Forward: return forward(op, arguments, shape);
    case OpKind::Backward: return backward(op, arguments, shape);
    default: forward_into(op, arguments, shape); return {};
  }
}

Results run_elementwise_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const ElementwiseArguments arguments = read_elementwise(op, kind, stack);
  const auto shape = broadcast<c10::SymInt>(op, kind, arguments);
  Results results;
  if (kind == OpKind::Forward) {
    for (const int output : op.outputs) {
      const Leaf& leaf = op.function.leaves[output];
      results.push_back(at::empty_symint(with_element(shape, arguments, leaf), options_of(arguments, leaf)));
    }
  }
  if (kind == OpKind::Backward) {
    for (size_t i = 0; i < op.differentiable.size(); ++i) {
      const at::Tensor& input = arguments.tensors[op.differentiable[i]];
      const bool wanted = arguments.mask[i] && c10::isFloatingType(input.scalar_type());
      results.push_back(
          wanted ? at::empty_symint(input.sym_sizes(), input.options().memory_format(c10::MemoryFormat::Contiguous))
                 : at::Tensor());
    }
  }
  return results;
}

}  // namespace torch_slang
