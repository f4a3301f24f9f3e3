// The operators slang::matmul_with_epilogue(epilogue, a, b, arguments), what torch.matmul gives and then a function of each
// element, and under it
//
//   mm_with_epilogue(epilogue, a [B, M, K], b [B, K, N], arguments) -> y [B, M, N]
//   mm_with_epilogue_and_sum(...) -> (y, sum): for a forward that is recorded, since the function's derivative looks at sum
//
// where each argument has three dimensions that broadcast to [B, M, N].
#include "epilogue.h"

#include <ATen/ExpandUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <optional>
#include <utility>

#include "matmul_shapes.h"
#include "operators/operator.h"
#include "vmap_level.h"

namespace torch_slang::product {

const EpilogueOp& mm_with_epilogue() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("slang::mm_with_epilogue", "")
                                 .typed<Tensor(c10::string_view, const Tensor&, const Tensor&, at::TensorList)>();
  return handle;
}

const EpilogueAndSumOp& mm_with_epilogue_and_sum() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("slang::mm_with_epilogue_and_sum", "")
                                 .typed<TensorPair(c10::string_view, const Tensor&, const Tensor&, at::TensorList)>();
  return handle;
}

std::vector<Tensor> cast_arguments(const Epilogue& epilogue, at::TensorList arguments, c10::DeviceType device) {
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto function = epilogue.function(type).current();
  const auto& leaves = function->signature().function.leaves;
  std::vector<Tensor> cast;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool has_gradient = i + 1 < leaves.size() && leaves[i + 1].differentiable;
    cast.push_back(has_gradient ? at::autocast::cached_cast(type, arguments[i], device) : arguments[i]);
  }
  return cast;
}

namespace {

// --- on a device

Results run_product(const Epilogue& epilogue, const ProductKernels& kernels, const Tensor& a, const Tensor& b,
                    at::TensorList arguments) {
  check_mm_with_epilogue(epilogue, a, b, arguments);
  const int64_t sizes[] = {a.size(0), a.size(1), b.size(2)};
  // Nothing to add up: a sum of one zero is the same.
  const bool has_depth = a.size(2) > 0;
  std::vector<c10::IValue> stack;
  stack.emplace_back(has_depth ? in_words(a) : at::zeros({sizes[0], sizes[1], 1}, a.options()));
  stack.emplace_back(has_depth ? in_words(b) : at::zeros({sizes[0], 1, sizes[2]}, a.options()));
  for (const Tensor& argument : arguments) stack.emplace_back(argument.expand(sizes));
  return kernels.of(a).current()->run(OpKind::Forward, stack);
}

bool is_empty(const Tensor& a, const Tensor& b) { return a.size(0) == 0 || a.size(1) == 0 || b.size(2) == 0; }

Tensor empty_product(const Tensor& a, const Tensor& b) { return at::empty_symint(product_sizes(a, b), a.options()); }

Tensor mm_with_epilogue_meta(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  check_mm_with_epilogue(epilogue_named(kMatmul, name), a, b, arguments);
  return empty_product(a, b);
}

TensorPair mm_with_epilogue_and_sum_meta(c10::string_view name, const Tensor& a, const Tensor& b,
                                         at::TensorList arguments) {
  check_mm_with_epilogue(epilogue_named(kMatmul, name), a, b, arguments);
  return {empty_product(a, b), empty_product(a, b)};
}

Tensor mm_with_epilogue_run(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(kMatmul, name);
  if (a.dim() == 3 && b.dim() == 3 && is_empty(a, b)) return mm_with_epilogue_meta(name, a, b, arguments);
  return run_product(epilogue, epilogue.product, a, b, arguments)[0];
}

TensorPair mm_with_epilogue_and_sum_run(c10::string_view name, const Tensor& a, const Tensor& b,
                                        at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(kMatmul, name);
  if (a.dim() == 3 && b.dim() == 3 && is_empty(a, b)) return mm_with_epilogue_and_sum_meta(name, a, b, arguments);
  const Results results = run_product(epilogue, epilogue.product_and_sum, a, b, arguments);
  return {results[0], results[1]};
}

// Sparse and nested tensors, and devices that there is no kernel for.
Tensor mm_with_epilogue_unsupported(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  check_mm_with_epilogue(epilogue_named(kMatmul, name), a, b, arguments);
  TORCH_INTERNAL_ASSERT(false, "slang::mm_with_epilogue has operands that a backend takes");
}

TensorPair mm_with_epilogue_and_sum_unsupported(c10::string_view name, const Tensor& a, const Tensor& b,
                                                at::TensorList arguments) {
  return {mm_with_epilogue_unsupported(name, a, b, arguments), {}};
}

// --- slang::matmul_with_epilogue

// Operands and arguments as batches of matrices.
struct Batches {
  Tensor a, b;
  std::vector<Tensor> arguments;
};

// What stands before a matrix's dimensions, as far as the argument does not repeat itself there.
Tensor argument_as_batch(const Tensor& argument, c10::SymIntArrayRef leading) {
  const auto own = leading_sizes(argument);
  for (const c10::SymInt& size : own) {
    if (!size.sym_eq(1).guard_or_false(__FILE__, __LINE__)) return as_batch(argument, leading);
  }
  return argument.reshape_symint({1, argument.sym_size(-2), argument.sym_size(-1)});
}

// Rows of all the batch's matrices after each other. An argument that has no rows of its own stays small.
Tensor argument_as_rows(const Tensor& argument, c10::SymIntArrayRef leading, const c10::SymInt& rows) {
  const auto own = argument.sym_sizes().slice(0, argument.dim() - 1);
  bool is_one_row = true;
  for (const c10::SymInt& size : own) is_one_row = is_one_row && size.sym_eq(1).guard_or_false(__FILE__, __LINE__);
  if (is_one_row) return argument.reshape_symint({1, 1, argument.sym_size(-1)});
  const Tensor expanded = argument.expand_symint(sizes_of(leading, {rows, argument.sym_size(-1)}));
  return expanded.reshape_symint({1, count(leading) * rows, argument.sym_size(-1)});
}

// Operands have at least two dimensions, and so have arguments.
Batches batches_of(const Tensor& a, const Tensor& b, const std::vector<Tensor>& arguments) {
  const c10::SymInt m = a.sym_size(-2), k = a.sym_size(-1), n = b.sym_size(-1);
  Batches batches;
  if (folds(a, b)) {
    const auto leading = leading_sizes(a);
    batches.a = a.reshape_symint({1, count(leading) * m, k});
    batches.b = b.reshape_symint({1, k, n});
    for (const Tensor& argument : arguments) batches.arguments.push_back(argument_as_rows(argument, leading, m));
    return batches;
  }
  const auto leading = at::infer_size_symdimvector(leading_sizes(a), leading_sizes(b));
  batches.a = as_batch(a, leading);
  batches.b = as_batch(b, leading);
  for (const Tensor& argument : arguments) batches.arguments.push_back(argument_as_batch(argument, leading));
  return batches;
}

// An argument beside a result whose operands have got dimensions of size 1 in place of none.
Tensor beside(const Tensor& argument, bool has_rows, bool has_columns) {
  Tensor result = argument;
  if (!has_columns) result = result.unsqueeze(-1);
  if (result.dim() == 0) result = result.unsqueeze(0);
  if (!has_rows || result.dim() == 1) result = result.unsqueeze(-2);
  return result;
}

// `multiply(a, b, arguments)`: one of the two products of batches. `views(tensor, sizes)`: its results with the sizes that
// the caller expects.
template <class Multiply>
auto checked_composite(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments,
                       const Multiply& multiply) {
  const Epilogue& epilogue = epilogue_named(kMatmul, name);
  check_matmul({epilogue.where.c_str()}, a, b);
  const auto sizes = result_sizes(a, b);
  check_epilogue_arguments(epilogue, a, arguments, sizes);
  std::vector<Tensor> placed;
  for (const Tensor& argument : arguments) placed.push_back(beside(argument, a.dim() > 1, b.dim() > 1));
  const Batches batches = batches_of(a.dim() == 1 ? a.unsqueeze(0) : a, b.dim() == 1 ? b.unsqueeze(1) : b, placed);
  return multiply(batches, [&](const Tensor& product) {
    return same_sizes(product.sym_sizes(), sizes) ? product : at::_unsafe_view_symint(product, sizes);
  });
}

Tensor matmul_with_epilogue(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  return checked_composite(name, a, b, arguments, [&](const Batches& batches, const auto& with_sizes) {
    return with_sizes(mm_with_epilogue().call(name, batches.a, batches.b, batches.arguments));
  });
}

TensorPair matmul_with_epilogue_and_sum(c10::string_view name, const Tensor& a, const Tensor& b,
                                        at::TensorList arguments) {
  return checked_composite(name, a, b, arguments, [&](const Batches& batches, const auto& with_sizes) {
    const auto [y, sum] = mm_with_epilogue_and_sum().call(name, batches.a, batches.b, batches.arguments);
    return TensorPair{with_sizes(y), with_sizes(sum)};
  });
}

// --- Autocast and vmap

template <c10::DeviceType Device, class Function>
auto autocast(const Function& function, c10::string_view name, const Tensor& a, const Tensor& b,
              at::TensorList arguments) {
  const c10::impl::ExcludeDispatchKeyGuard guard(at::autocast::get_autocast_dispatch_key_from_device_type(Device));
  const auto type = at::autocast::get_autocast_dtype(Device);
  const auto cast = cast_arguments(epilogue_named(kMatmul, name), arguments, Device);
  return function(name, at::autocast::cached_cast(type, a, Device), at::autocast::cached_cast(type, b, Device), cast);
}

Tensor call_mm(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  return mm_with_epilogue().call(name, a, b, arguments);
}
TensorPair call_mm_and_sum(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  return mm_with_epilogue_and_sum().call(name, a, b, arguments);
}

template <auto Function, c10::DeviceType Device>
auto autocast_kernel(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  return autocast<Device>(Function, name, a, b, arguments);
}

template <c10::DeviceType Device>
void register_autocast(torch::Library& library) {
  library.impl("mm_with_epilogue", &autocast_kernel<call_mm, Device>);
  library.impl("mm_with_epilogue_and_sum", &autocast_kernel<call_mm_and_sum, Device>);
  library.impl("matmul_with_epilogue", &autocast_kernel<matmul_with_epilogue, Device>);
}

// The mapped dimension is one more batch dimension.
template <auto Op, auto Composite>
auto vmap(c10::string_view name, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  const VmapLevel level;
  const VmapOperand left = level.in_front(a), right = level.in_front(b);
  std::vector<Tensor> values;
  std::optional<c10::SymInt> size;  // of the mapped dimension, if an argument has it
  for (const Tensor& argument : arguments) {
    const VmapOperand operand = level.in_front(argument);
    values.push_back(operand.tensor);
    if (operand.is_mapped) size = operand.tensor.sym_size(0);
  }
  const bool is_batch = left.is_mapped || right.is_mapped;
  if (!is_batch && !size) return Op().call(name, left.tensor, right.tensor, values);
  // With operands of one matrix for all, that the arguments differ makes it a batch.
  const auto result = Composite(name, is_batch ? left.tensor : left.expanded(*size), right.tensor, values);
  if constexpr (std::is_same_v<decltype(result), const Tensor>) {
    return level.result(result);
  } else {
    return TensorPair{level.result(std::get<0>(result)), level.result(std::get<1>(result))};
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(slang, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  library.def("mm_with_epilogue(str epilogue, Tensor a, Tensor b, Tensor[] arguments) -> Tensor", tags);
  library.def("mm_with_epilogue_and_sum(str epilogue, Tensor a, Tensor b, Tensor[] arguments) -> (Tensor, Tensor)",
              tags);
  library.def("matmul_with_epilogue(str epilogue, Tensor a, Tensor b, Tensor[] arguments) -> Tensor", tags);
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    library.impl("mm_with_epilogue", torch::dispatch(key, mm_with_epilogue_run));
    library.impl("mm_with_epilogue_and_sum", torch::dispatch(key, mm_with_epilogue_and_sum_run));
  }
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::NestedTensorCPU,
                         c10::DispatchKey::NestedTensorCUDA}) {
    library.impl("mm_with_epilogue", torch::dispatch(key, mm_with_epilogue_unsupported));
    library.impl("mm_with_epilogue_and_sum", torch::dispatch(key, mm_with_epilogue_and_sum_unsupported));
  }
  library.impl("mm_with_epilogue", torch::dispatch(c10::DispatchKey::Meta, mm_with_epilogue_meta));
  library.impl("mm_with_epilogue_and_sum", torch::dispatch(c10::DispatchKey::Meta, mm_with_epilogue_and_sum_meta));
  library.impl("mm_with_epilogue", torch::dispatch(c10::DispatchKey::Autograd, mm_with_epilogue_autograd));
  library.impl("mm_with_epilogue_and_sum",
               torch::dispatch(c10::DispatchKey::Autograd, mm_with_epilogue_and_sum_autograd));
  library.impl("mm_with_epilogue",
               torch::dispatch(c10::DispatchKey::FuncTorchBatched, vmap<mm_with_epilogue, matmul_with_epilogue>));
  library.impl("mm_with_epilogue_and_sum",
               torch::dispatch(c10::DispatchKey::FuncTorchBatched,
                               vmap<mm_with_epilogue_and_sum, matmul_with_epilogue_and_sum>));
  // Without the second key vmap would not look inside, but run it in a loop.
  for (const auto key : {c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::FuncTorchBatched}) {
    library.impl("matmul_with_epilogue", torch::dispatch(key, matmul_with_epilogue));
  }
}

TORCH_LIBRARY_IMPL(slang, AutocastCPU, library) { register_autocast<c10::kCPU>(library); }
TORCH_LIBRARY_IMPL(slang, AutocastCUDA, library) { register_autocast<c10::kCUDA>(library); }

}  // namespace torch_slang::product
