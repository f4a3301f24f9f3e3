// The operators slang::block_sparse_mm and slang::block_sparse_sdd over the kernels of block_sparse*.slang.
#include "block_sparse.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <algorithm>

#include "backend/backend.h"
#include "matmul.h"
#include "operators/operator.h"

namespace torch_slang::block_sparse {

const MmOp& mm() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("slang::block_sparse_mm", "")
                                 .typed<Tensor(const Tensor&, const Tensor&, at::TensorList, Sizes, bool)>();
  return handle;
}

const SddOp& sdd() {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("slang::block_sparse_sdd", "")
                                 .typed<Tensor(const Tensor&, const Tensor&, at::TensorList, Sizes, at::IntArrayRef)>();
  return handle;
}

c10::SymDimVector mm_sizes(const Tensor& dense, Sizes shape, bool transpose) {
  c10::SymDimVector sizes(dense.sym_sizes().begin(), dense.sym_sizes().end());
  sizes.back() = shape[transpose ? 0 : 1];
  return sizes;
}

std::vector<c10::IValue> mm_arguments(const Tensor& dense, const Tensor& values, const Pattern& pattern,
                                      at::IntArrayRef sizes, bool transpose) {
  const bool is_batch = values.dim() == 4;
  const int64_t width = sizes.back(), batch = is_batch ? dense.size(0) : 1, depth = dense.size(-1);
  const int64_t rows = c10::multiply_integers(sizes) / width / batch, apart = is_batch ? values.size(1) : 0;
  // Without anything to add up a kernel makes sums of nothing, but it wants views that have elements.
  const Tensor matrices =
      depth > 0 ? dense.reshape({batch, rows, depth}) : at::zeros({batch, rows, 1}, dense.options());
  Tensor blocks = is_batch ? values.flatten(0, 1) : values;
  if (blocks.size(0) == 0) blocks = at::zeros({1, blocks.size(1), blocks.size(2)}, blocks.options());
  const Lines lines = transpose ? pattern.rows() : pattern.columns();
  return {product::in_words(matrices),
          product::in_words(transpose ? blocks.mT() : blocks),
          lines.order,
          lines.offsets,
          lines.depths,
          lines.places,
          width,
          apart};
}

namespace {

// Whether large tiles, as block_sparse_lines.slang has them, are too few for all multiprocessors.
bool wants_narrow_tiles(const Tensor& rows, const Tensor& blocks, int64_t lines) {
  const auto parts = [](int64_t size, int64_t of_tile) { return (size - 1) / of_tile + 1; };
  const int64_t tiles = rows.size(0) * parts(rows.size(1), 256) * parts(lines * blocks.size(2), 128);
  constexpr int64_t kThreads = 2048;  // of a multiprocessor
  return tiles * kThreads < static_cast<int64_t>(backend_for(c10::kCUDA).threads_at_once(blocks.device()));
}

}  // namespace

const RegisteredFamily* lines_kernel(std::vector<c10::IValue>& arguments, bool has_epilogue) {
  const Tensor rows = arguments[0].toTensor(), blocks = arguments[1].toTensor();
  const int64_t depth = blocks.size(1), width = blocks.size(2), lines = arguments[2].toTensor().size(0);
  constexpr int64_t kMostOfFew = 16;
  const bool is_few = rows.size(1) <= kMostOfFew;
  if (!blocks.is_cuda() || blocks.element_size() != 2) return nullptr;
  // Blocks that are tiles of their own: of few rows each is read sooner than lines of blocks are merged.
  if ((!is_few || has_epilogue) && depth >= 64 && (width >= 128 || (width == 64 && rows.size(1) <= 64))) return nullptr;
  if (!backend_for(c10::kCUDA).multiplies_lines(blocks.device()) || !product::lies_in_words(blocks)) return nullptr;
  const Tensor words = rows.stride(2) == 1 ? rows : product::in_words(rows.contiguous());
  const bool has_rows_in_words = words.size(1) == 1 || words.stride(1) * words.element_size() % 16 == 0;
  if (!product::lies_in_words(words) || !has_rows_in_words) return nullptr;
  arguments[0] = words;
  const char* const kind = is_few ? "_few" : wants_narrow_tiles(words, blocks, lines) ? "_narrow" : "";
  return find_family("slang", c10::str("block_sparse_lines_", width, "_", depth, kind));
}

product::ProductKernels kernels_named(const char* op, const char* name) {
  const product::ProductKernels families("slang", name);
  TORCH_CHECK(families.are_there(), "slang::", op,
              ": its kernel is not there: call torch_slang::load_builtin first, as ",
              "Python's `import torch_slang` does");
  return families;
}

namespace {

const product::ProductKernels& mm_kernels() {
  static const product::ProductKernels found = kernels_named("block_sparse_mm", "block_sparse_product");
  return found;
}
c10::SymDimVector sdd_sizes(const Tensor& a, at::TensorList pattern, at::IntArrayRef block_shape) {
  c10::SymDimVector sizes;
  if (a.dim() == 3) sizes.push_back(a.sym_size(0));
  sizes.append({Pattern(pattern).count(), block_shape[0], block_shape[1]});
  return sizes;
}

// --- on a device

Tensor mm_run(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  check_mm(dense, values, pattern, shape, transpose);
  const auto sizes = C10_AS_INTARRAYREF_SLOW_ALLOC(mm_sizes(dense, shape, transpose));
  if (dense.numel() == 0 || values.numel() == 0) return at::zeros(sizes, dense.options());
  check_countable_mm("slang::block_sparse_mm", dense, values, C10_AS_INTARRAYREF_SLOW_ALLOC(shape));
  auto arguments = mm_arguments(dense, values, Pattern(pattern), sizes, transpose);
  const RegisteredFamily* const lines = lines_kernel(arguments);
  return launch_mm("slang::block_sparse_mm", lines != nullptr ? *lines : mm_kernels().of(dense), arguments)[0].view(
      sizes);
}

Tensor sdd_run(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape) {
  check_sdd(a, b, pattern, shape, block_shape);
  const auto sizes = C10_AS_INTARRAYREF_SLOW_ALLOC(sdd_sizes(a, pattern, block_shape));
  if (a.numel() == 0 || b.numel() == 0 || c10::multiply_integers(sizes) == 0) return at::zeros(sizes, a.options());
  const auto batches = [](const Tensor& matrices) {
    return product::in_words(matrices.dim() == 3 ? matrices : matrices.unsqueeze(0));
  };
  const Pattern indices(pattern);
  check_countable_sdd("slang::block_sparse_sdd", a, C10_AS_INTARRAYREF_SLOW_ALLOC(shape), sizes.end()[-3]);
  return sampled_blocks(batches(a), batches(b), indices, block_shape).view(sizes);
}

Tensor mm_meta(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  check_mm(dense, values, pattern, shape, transpose);
  return at::empty_symint(mm_sizes(dense, shape, transpose), dense.options());
}

Tensor sdd_meta(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape, at::IntArrayRef block_shape) {
  check_sdd(a, b, pattern, shape, block_shape);
  return at::empty_symint(sdd_sizes(a, pattern, block_shape), a.options());
}

// Sparse and nested tensors, and devices that there is no kernel for.
Tensor mm_unsupported(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  check_mm(dense, values, pattern, shape, transpose);
  TORCH_INTERNAL_ASSERT(false, "slang::block_sparse_mm has operands that a backend takes");
}
Tensor sdd_unsupported(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                       at::IntArrayRef block_shape) {
  check_sdd(a, b, pattern, shape, block_shape);
  TORCH_INTERNAL_ASSERT(false, "slang::block_sparse_sdd has operands that a backend takes");
}

// --- Autocast

template <c10::DeviceType Device>
Tensor mm_autocast(const Tensor& dense, const Tensor& values, at::TensorList pattern, Sizes shape, bool transpose) {
  const c10::impl::ExcludeDispatchKeyGuard guard(at::autocast::get_autocast_dispatch_key_from_device_type(Device));
  const auto type = at::autocast::get_autocast_dtype(Device);
  const auto cast = [&](const Tensor& tensor) { return at::autocast::cached_cast(type, tensor, Device); };
  return mm().call(cast(dense), cast(values), pattern, shape, transpose);
}

template <c10::DeviceType Device>
Tensor sdd_autocast(const Tensor& a, const Tensor& b, at::TensorList pattern, Sizes shape,
                    at::IntArrayRef block_shape) {
  const c10::impl::ExcludeDispatchKeyGuard guard(at::autocast::get_autocast_dispatch_key_from_device_type(Device));
  const auto type = at::autocast::get_autocast_dtype(Device);
  const auto cast = [&](const Tensor& tensor) { return at::autocast::cached_cast(type, tensor, Device); };
  return sdd().call(cast(a), cast(b), pattern, shape, block_shape);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(slang, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  library.def(
      "block_sparse_mm(Tensor dense, Tensor values, Tensor[] pattern, SymInt[2] shape, bool transpose=False) -> Tensor",
      tags);
  library.def("block_sparse_sdd(Tensor a, Tensor b, Tensor[] pattern, SymInt[2] shape, int[2] block_shape) -> Tensor",
              tags);
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    library.impl("block_sparse_mm", torch::dispatch(key, mm_run));
    library.impl("block_sparse_sdd", torch::dispatch(key, sdd_run));
  }
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::NestedTensorCPU,
                         c10::DispatchKey::NestedTensorCUDA}) {
    library.impl("block_sparse_mm", torch::dispatch(key, mm_unsupported));
    library.impl("block_sparse_sdd", torch::dispatch(key, sdd_unsupported));
  }
  library.impl("block_sparse_mm", torch::dispatch(c10::DispatchKey::Meta, mm_meta));
  library.impl("block_sparse_sdd", torch::dispatch(c10::DispatchKey::Meta, sdd_meta));
  library.impl("block_sparse_mm", torch::dispatch(c10::DispatchKey::Autograd, mm_autograd));
  library.impl("block_sparse_sdd", torch::dispatch(c10::DispatchKey::Autograd, sdd_autograd));
}

TORCH_LIBRARY_IMPL(slang, AutocastCPU, library) {
  library.impl("block_sparse_mm", mm_autocast<c10::kCPU>);
  library.impl("block_sparse_sdd", sdd_autocast<c10::kCPU>);
}
TORCH_LIBRARY_IMPL(slang, AutocastCUDA, library) {
  library.impl("block_sparse_mm", mm_autocast<c10::kCUDA>);
  library.impl("block_sparse_sdd", sdd_autocast<c10::kCUDA>);
}

}  // namespace torch_slang::block_sparse
