#include "functions/operator.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "functions/arguments.h"
#include "functions/call.h"
#include "functions/kernel.h"
#include "functions/variant.h"
#include "operators/new_tensor.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

using FindKernel = ElementwiseCall::FindKernel;

template <class Int>
OuterShape<Int> with_element(const OuterShape<Int>& outer, const Arguments& arguments, const Leaf& leaf) {
  OuterShape<Int> sizes = outer;
  for (const int64_t n : arguments.element_shape(leaf)) sizes.push_back(Int(n));
  return sizes;
}

void load_inputs(const ElementwiseSignature& op, const Arguments& arguments, ElementwiseCall& call) {
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (arguments.tensors[i].defined() && !op.function.leaves[i].is_output) {
      call.load(static_cast<int>(i), arguments.tensors[i]);
    }
    if (arguments.numbers[i] != nullptr) call.make(static_cast<int>(i), *arguments.numbers[i]);
  }
}

void compute(const ElementwiseSignature& op, FindKernel find, OpKind kind, const Arguments& arguments,
             const OuterShape<int64_t>& shape, const Results& outputs) {
  if (c10::multiply_integers(shape) == 0) return;
  ElementwiseCall call(op, kind, arguments, shape);
  load_inputs(op, arguments, call);
  for (size_t i = 0; i < outputs.size(); ++i) call.store(op.outputs[i], outputs[i]);
  call.run(find);
}

Results new_outputs(const ElementwiseSignature& op, const Arguments& arguments, const OuterShape<int64_t>& shape) {
  Results results;
  for (const int output : op.outputs) {
    const Leaf& leaf = op.function.leaves[output];
    results.push_back(new_empty(with_element(shape, arguments, leaf), arguments.options(leaf)));
  }
  return results;
}

Results forward(const ElementwiseSignature& op, FindKernel find, const Arguments& arguments,
                const OuterShape<int64_t>& shape) {
  Results results = new_outputs(op, arguments, shape);
  compute(op, find, OpKind::Forward, arguments, shape, results);
  return results;
}

// Whether some memory is certainly both's. Where that is too hard to tell, the answer is no: they count as interleaved.
bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (!may_overlap(a, b)) return false;
  return at::get_overlap_status(a, b) != at::MemOverlapStatus::TooHard || a.const_data_ptr() == b.const_data_ptr();
}

// A tensor given for an output must have room for every element.
void check_given(const ElementwiseSignature& op, const Arguments& arguments) {
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
bool can_be_written(const ElementwiseSignature& op, const Arguments& arguments, size_t output) {
  const auto& leaves = op.function.leaves;
  const at::Tensor& tensor = arguments.tensors[output];
  if (!tensor.is_contiguous() || tensor.is_neg()) return false;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const at::Tensor& other = arguments.tensors[i];
    if (i == output || !other.defined() || !may_overlap(tensor, other)) continue;
    if (leaves[i].is_output || leaves[i].is_whole() ||
        leaves[i].element.shape.size() != leaves[output].element.shape.size() ||
        at::get_overlap_status(tensor, other) != at::MemOverlapStatus::Full)
      return false;
  }
  return true;
}

void forward_into(const ElementwiseSignature& op, FindKernel find, const Arguments& arguments,
                  const OuterShape<int64_t>& shape) {
  check_given(op, arguments);
  Results outputs;
  for (const int output : op.outputs) {
    const at::Tensor& given = arguments.tensors[output];
    outputs.push_back(can_be_written(op, arguments, output) ? given : new_empty(given.sizes(), given.options()));
  }
  compute(op, find, OpKind::Launch, arguments, shape, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& given = arguments.tensors[op.outputs[i]];
    if (!outputs[i].is_same(given)) given.copy_(outputs[i]);
  }
}

// `values`: empty, or tensors that take the forward's results: Note [double backward in one loop].
Results backward(const ElementwiseSignature& op, FindKernel find, const Arguments& arguments,
                 const OuterShape<int64_t>& shape, const Results& values) {
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
  if (!any) {
    if (!values.empty()) compute(op, find, OpKind::Forward, arguments, shape, values);
    return results;
  }
  if (c10::multiply_integers(shape) == 0) {
    for (size_t i = 0; i < results.size(); ++i) {
      const int leaf = op.differentiable[i];
      const at::Tensor& tensor = arguments.tensors[leaf];
      if (!is_wanted(i)) continue;
      results[i] = op.function.leaves[leaf].is_written() ? arguments.gradients[leaf].clone(at::MemoryFormat::Contiguous)
                                                         : at::zeros(tensor.sizes(), tensor.options());
    }
    return results;
  }
  load_inputs(op, arguments, call);
  for (size_t i = 0; i < values.size(); ++i) call.store_value(op.outputs[i], values[i]);
  for (const int output : op.grad_outputs) {
    if (op.function.leaves[output].is_output) {
      call.load(output, arguments.gradients[output]);
    } else {
      call.give(output, arguments.gradients[output]);
    }
  }
  call.run(find);
  for (size_t i = 0; i < results.size(); ++i) {
    if (is_wanted(i)) results[i] = call.gradient(op.differentiable[i]);
  }
  return results;
}

std::string how_kept(const Leaf& leaf, ElementwiseVariant::Gradient kind) {
  using Gradient = ElementwiseVariant::Gradient;
  switch (kind) {
    case Gradient::Gathered: return leaf.view().gathering().kept;
    case Gradient::Few: return std::string("sums, then ") + leaf.view().gathering().kept;
    case Gradient::Whole: return "stored";
    case Gradient::Wide: return "stored, then summed";
    case Gradient::Summed: return "parts";
    case Gradient::RowSum: return "parts of rows";
    case Gradient::ColumnSum: return "parts of columns";
    default: return "unwanted";
  }
}

KernelFacts facts_of(const ElementwiseSignature& op, const KernelKey& key, const LoadedKernel& loaded) {
  KernelFacts facts = common_facts(key, loaded);
  facts.loop = key.variant.is_tiled ? "rows" : "elements";
  facts.lanes = key.variant.lanes;
  if (key.kind != OpKind::Backward) return facts;
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (leaf.is_output || !leaf.differentiable) continue;
    GradientFacts& gradient = facts.gradients.emplace_back();
    gradient.argument = leaf.path;
    gradient.kept = how_kept(leaf, key.variant.leaves[i].gradient);
    if (!loaded.own_dims.empty() && loaded.own_dims[i]) gradient.kept = "registers";
  }
  return facts;
}

// What to write for a tensor that is seen whole and has no gradient.
std::string differentiable_form(const Leaf& leaf) {
  const std::string& type = leaf.slang_type;
  const size_t arguments = type.find('<');
  const bool is_view = type.starts_with("TensorView");
  const std::string interface = type.starts_with("I") ? "I" : "";
  return "declare it " + (is_view ? "DiffTensorView" : interface + "DiffTensor") + type.substr(arguments);
}

}  // namespace

ElementwiseOperator::ElementwiseOperator(const std::string& ns, Function function, std::shared_ptr<TextSource> texts,
                                         KernelOptions options, const std::set<std::string>& names)
    : signature_(ns, std::move(function), std::move(texts), options, names),
      kernels_([this](const KernelKey& key, const CallContext&) { return load_kernel(signature_, key); },
               [this] { return shared_from_this(); }) {}

Results ElementwiseOperator::run(OpKind kind, Stack stack, const CallContext& context) const {
  const Arguments arguments = read_arguments(signature_, kind, stack);
  const auto shape = broadcast<int64_t>(signature_, kind, arguments);
  const c10::OptionalDeviceGuard guard(arguments.device);
  const auto find = [&](const KernelKey& key) { return kernels_.get(key, context); };
  switch (kind) {
    case OpKind::Forward: return forward(signature_, find, arguments, shape);
    case OpKind::Backward: return backward(signature_, find, arguments, shape, {});
    default: forward_into(signature_, find, arguments, shape); return {};
  }
}

std::optional<Results> ElementwiseOperator::run_backward_with_values(Stack stack) const {
  const Arguments arguments = read_arguments(signature_, OpKind::Backward, stack);
  const auto shape = broadcast<int64_t>(signature_, OpKind::Backward, arguments);
  const c10::OptionalDeviceGuard guard(arguments.device);
  const Results values = new_outputs(signature_, arguments, shape);
  // The loop has one type for a result and its gradient.
  for (size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& gradient = arguments.gradients[signature_.outputs[i]];
    if (!gradient.defined() || gradient.scalar_type() != values[i].scalar_type()) return std::nullopt;
  }
  const auto find = [&](const KernelKey& key) { return kernels_.get(key, {}); };
  Results results = backward(signature_, find, arguments, shape, values);
  results.insert(results.end(), values.begin(), values.end());
  return results;
}

Results ElementwiseOperator::run_meta(OpKind kind, Stack stack) const {
  const Arguments arguments = read_arguments(signature_, kind, stack);
  const auto shape = broadcast<c10::SymInt>(signature_, kind, arguments);
  Results results;
  if (kind == OpKind::Forward) {
    for (const int output : signature_.outputs) {
      const Leaf& leaf = signature_.function.leaves[output];
      results.push_back(at::empty_symint(with_element(shape, arguments, leaf), arguments.options(leaf)));
    }
  }
  if (kind == OpKind::Backward) {
    for (size_t i = 0; i < signature_.differentiable.size(); ++i) {
      const at::Tensor& input = arguments.tensors[signature_.differentiable[i]];
      const bool wanted = arguments.mask[i] && c10::isFloatingType(input.scalar_type());
      results.push_back(
          wanted ? at::empty_symint(input.sym_sizes(), input.options().memory_format(c10::MemoryFormat::Contiguous))
                 : at::Tensor());
    }
  }
  return results;
}

// Of an argument that is no constant and yet has no gradient.
void ElementwiseOperator::check_requires_grad(int index, const std::string&) const {
  const Leaf& leaf = signature_.function.leaves[index];
  const std::string& name = signature_.qualified(OpKind::Forward);
  TORCH_CHECK(
      !leaf.is_written() || leaf.differentiable, name, ": the function stores to ", leaf.path, ", a ", leaf.slang_type,
      ", which has no derivative, but got a tensor that requires grad: pass one that does not, or call it under "
      "torch.no_grad()");
  TORCH_CHECK(!signature_.outputs.empty() || signature_.of(OpKind::Backward) != nullptr, name, ": ", leaf.path,
              " requires grad, but the function returns nothing that could have a gradient: its stores to tensors have "
              "none. Return the value, or call it under torch.no_grad()");
  TORCH_CHECK(!leaf.is_whole() || leaf.no_gradient.empty(), name, ": expected ", leaf.path, " to be a constant, since ",
              leaf.no_gradient, ", but got a tensor that requires grad: ", differentiable_form(leaf),
              ", or detach() the tensor");
  TORCH_CHECK(leaf.no_gradient.empty(), signature_.qualified(OpKind::Forward), ": expected ", leaf.path,
              " to be a constant, since ", leaf.no_gradient,
              ", but got a tensor that requires grad: make it IDifferentiable, or the parameter no_diff, or detach() "
              "the tensor");
}

const char* ElementwiseOperator::why_no_derivative() const {
  const auto& leaves = signature_.function.leaves;
  const bool had_derivative = std::any_of(leaves.begin(), leaves.end(),
                                          [](const Leaf& leaf) { return leaf.is_generated() && leaf.diff_view(); });
  if (had_derivative && !signature_.grad_outputs.empty()) return nullptr;  // those left are constants
  return "it has no derivative: mark the function [Differentiable], and the arguments that gradients are asked of must "
         "be "
         "floating-point ones without no_diff, in structs that are IDifferentiable";
}

// All are kept but those that the forward has changed, which a backward does not look at.
std::vector<bool> ElementwiseOperator::unused_inputs(Stack) const {
  std::vector<bool> unused;
  for (const Leaf& leaf : signature_.function.leaves) unused.push_back(leaf.is_written());
  return unused;
}

std::vector<KernelFacts> ElementwiseOperator::explain() const {
  std::vector<KernelFacts> all;
  for (const auto& [key, loaded] : kernels_.ready()) all.push_back(facts_of(signature_, key, *loaded));
  return all;
}

KernelSource ElementwiseOperator::source(const KernelKey& key, Compile compile) const {
  KernelKey usual = key;
  if (usual.variant.leaves.empty())
    usual.variant = dense_variant(signature_, key.kind, key.types, /*few=*/key.strided != 0);
  for (OwnTries tries = first_tries(signature_);;) {
    KernelSource source = specialize(signature_, usual, tries);
    if (!compile || !learn(signature_, usual, compile(source), tries)) return source;
  }
}

}  // namespace torch_slang
