// The operators of block_sparse_epilogue.h, over the kernels that torch_slang/products/epilogue_text.py makes of block_sparse.slang.
#include "block_sparse_epilogue.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <utility>

#include "block_sparse_rule.h"
#include "epilogue_autograd.h"
#include "operators/operator.h"

namespace torch_slang::block_sparse {

const EpilogueOp& mm_with_epilogue() {
  static const auto handle =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("slang::block_sparse_mm_with_epilogue", "")
          .typed<Tensor(c10::string_view, const Tensor&, const Tensor&, at::TensorList, Sizes, bool, at::TensorList)>();
  return handle;
}

const EpilogueAndSumOp& mm_with_epilogue_and_sum() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("slang::block_sparse_mm_with_epilogue_and_sum", "")
                                 .typed<TensorPair(c10::string_view, const Tensor&, const Tensor&, at::TensorList,
                                                   Sizes, bool, at::TensorList)>();
  return handle;
}

namespace {

// Gives the result's sizes.
c10::SymDimVector checked(const Epilogue& epilogue, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                          Sizes shape, bool transpose, at::TensorList arguments) {
  check_mm(dense, values, pattern, shape, transpose, epilogue.where.c_str());
  auto sizes = mm_sizes(dense, shape, transpose);
  product::check_epilogue_arguments(epilogue, dense, arguments, sizes);
  return sizes;
}

// --- on a device

Results run_product(const Epilogue& epilogue, const product::ProductKernels& kernels, const Tensor& dense,
                    const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose,
                    at::TensorList arguments) {
  const auto symbolic = checked(epilogue, dense, values, pattern, shape, transpose, arguments);
  const auto sizes = C10_AS_INTARRAYREF_SLOW_ALLOC(symbolic);
  if (c10::multiply_integers(sizes) == 0) {
    const auto empty = [&] { return at::empty(sizes, dense.options()); };
    return {empty(), empty()};
  }
  check_countable_mm(epilogue.where.c_str(), dense, values, C10_AS_INTARRAYREF_SLOW_ALLOC(shape));
  auto stack = mm_arguments(dense, values, Pattern(pattern), sizes, transpose);
  // Tiles of lines have no place for the function: it is applied to their sums behind them.
  if (const RegisteredFamily* const lines = lines_kernel(stack, /*has_epilogue=*/true)) {
    const Tensor sum = launch_mm(epilogue.where.c_str(), *lines, stack)[0].view(sizes);
    std::vector<c10::IValue> leaves{sum};
    leaves.insert(leaves.end(), arguments.begin(), arguments.end());
    const Results y = epilogue.function(dense.scalar_type()).current()->run(OpKind::Forward, leaves);
    return {y[0].to(dense.scalar_type()), sum};
  }
  const Tensor& rows = stack[0].toTensor();
  const int64_t in_kernel[] = {rows.size(0), rows.size(1), sizes.back()};
  for (const Tensor& argument : arguments) stack.emplace_back(argument.expand(sizes).reshape(in_kernel));
  Results results = launch_mm(epilogue.where.c_str(), kernels.of(dense), stack);
  for (Tensor& result : results) result = result.view(sizes);
  return results;
}

Tensor run_mm(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape,
              bool transpose, at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(name);
  return run_product(epilogue, epilogue.product, dense, values, pattern, shape, transpose, arguments)[0];
}

TensorPair run_mm_and_sum(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                          Sizes shape, bool transpose, at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(name);
  const Results results =
      run_product(epilogue, epilogue.product_and_sum, dense, values, pattern, shape, transpose, arguments);
  return {results[0], results[1]};
}

Tensor meta(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape,
            bool transpose, at::TensorList arguments) {
  const auto sizes = checked(epilogue_named(name), dense, values, pattern, shape, transpose, arguments);
  return at::empty_symint(sizes, dense.options());
}

TensorPair meta_and_sum(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                        Sizes shape, bool transpose, at::TensorList arguments) {
  const Tensor result = meta(name, dense, values, pattern, shape, transpose, arguments);
  return {result, at::empty_symint(result.sym_sizes(), result.options())};
}

// Sparse and nested tensors, and devices that there is no kernel for.
Tensor unsupported(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                   Sizes shape, bool transpose, at::TensorList arguments) {
  checked(epilogue_named(name), dense, values, pattern, shape, transpose, arguments);
  TORCH_INTERNAL_ASSERT(false, "slang::block_sparse_mm_with_epilogue has operands that a backend takes");
}

TensorPair unsupported_and_sum(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern,
                               Sizes shape, bool transpose, at::TensorList arguments) {
  return {unsupported(name, dense, values, pattern, shape, transpose, arguments), {}};
}

// --- Autograd and autocast

Tensor autograd(c10::DispatchKeySet keys, c10::string_view name, const Tensor& dense, const Tensor& values,
                at::TensorList pattern, Sizes shape, bool transpose, at::TensorList arguments) {
  if (product::has_tangent(dense, values, arguments) ||
      product::is_recorded(epilogue_named(name), dense, values, arguments)) {
    return std::get<0>(mm_with_epilogue_and_sum().call(name, dense, values, pattern, shape, transpose, arguments));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return mm_with_epilogue().redispatch(keys & c10::after_autograd_keyset, name, dense, values, pattern, shape,
                                       transpose, arguments);
}

TensorPair autograd_and_sum(c10::DispatchKeySet keys, c10::string_view name, const Tensor& dense, const Tensor& values,
                            at::TensorList pattern, Sizes shape, bool transpose, at::TensorList arguments) {
  const Epilogue& epilogue = epilogue_named(name);
  const product::PinnedEpilogue pin(epilogue);
  if (product::has_tangent(dense, values, arguments)) {
    checked(epilogue, dense, values, pattern, shape, transpose, arguments);
    const Tensor sum = mm().call(dense, values, pattern, shape, transpose);
    return {product::function_of(epilogue, sum, arguments), sum};
  }
  TensorPair results;
  {
    const at::AutoDispatchBelowADInplaceOrView guard;
    results = mm_with_epilogue_and_sum().redispatch(keys & c10::after_autograd_keyset, name, dense, values, pattern,
                                                    shape, transpose, arguments);
  }
  const auto product = [&] { return Mm(values, pattern, shape, transpose); };
  return product::with_history(std::move(results), epilogue, product, dense, values, arguments);
}

template <auto Op, c10::DeviceType Device>
auto autocast(c10::string_view name, const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape,
              bool transpose, at::TensorList arguments) {
  const c10::impl::ExcludeDispatchKeyGuard guard(at::autocast::get_autocast_dispatch_key_from_device_type(Device));
  const auto type = at::autocast::get_autocast_dtype(Device);
  const auto cast = [&](const Tensor& tensor) { return at::autocast::cached_cast(type, tensor, Device); };
  return Op().call(name, cast(dense), cast(values), pattern, shape, transpose,
                   product::cast_arguments(epilogue_named(name), arguments, Device));
}

template <c10::DeviceType Device>
void register_autocast(torch::Library& library) {
  library.impl("block_sparse_mm_with_epilogue", &autocast<mm_with_epilogue, Device>);
  library.impl("block_sparse_mm_with_epilogue_and_sum", &autocast<mm_with_epilogue_and_sum, Device>);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(slang, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  const std::string arguments =
      "(str epilogue, Tensor dense, Tensor values, Tensor[] pattern, SymInt[2] shape, bool transpose, "
      "Tensor[] arguments) -> ";
  const std::string name = "block_sparse_mm_with_epilogue", name_and_sum = name + "_and_sum";
  library.def((name + arguments + "Tensor").c_str(), tags);
  library.def((name_and_sum + arguments + "(Tensor, Tensor)").c_str(), tags);
  const auto add = [&](c10::DispatchKey key, auto* kernel, auto* kernel_and_sum) {
    library.impl(name.c_str(), torch::dispatch(key, kernel));
    library.impl(name_and_sum.c_str(), torch::dispatch(key, kernel_and_sum));
  };
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) add(key, run_mm, run_mm_and_sum);
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::NestedTensorCPU,
                         c10::DispatchKey::NestedTensorCUDA}) {
    add(key, unsupported, unsupported_and_sum);
  }
  add(c10::DispatchKey::Meta, meta, meta_and_sum);
  add(c10::DispatchKey::Autograd, autograd, autograd_and_sum);
}

TORCH_LIBRARY_IMPL(slang, AutocastCPU, library) { register_autocast<c10::kCPU>(library); }
TORCH_LIBRARY_IMPL(slang, AutocastCUDA, library) { register_autocast<c10::kCUDA>(library); }

}  // namespace torch_slang::block_sparse
