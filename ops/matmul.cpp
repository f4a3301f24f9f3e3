// The operators slang::mm, slang::matmul and slang::dot over the kernel of matmul.slang, for float16, bfloat16, float32
// and float64 of any strides.
//
//   mm(a, b)      [M, K] x [K, N] -> [M, N], or batches of them, [B, M, K] x [B, K, N] -> [B, M, N]: all that runs on a
//                 device, and all that has derivatives
//   matmul(a, b)  what torch.matmul gives: views around one mm
//   dot(a, b, transpose_a, transpose_b, *, alpha, beta, c)
//                 alpha op(a) op(b) + beta c, where op swaps the last two dimensions if asked to, and c broadcasts to
//                 the result. With beta = 0 nobody looks at c: NaN there does not spread, and it gets no gradient.
//
// matmul and dot are composite: what transforms mm (autograd, vmap, compilers) transforms them.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include "matmul.h"
#include "matmul_shapes.h"
#include "operators/operator.h"
#include "vmap_level.h"

namespace torch_slang::product {

const c10::TypedOperatorHandle<Tensor(const Tensor&, const Tensor&)>& mm() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("slang::mm", "").typed<Tensor(const Tensor&, const Tensor&)>();
  return handle;
}

ProductKernels::ProductKernels(const std::string& ns, const std::string& name)
    : halves(find_family(ns, name)), wide(find_family(ns, name + "_wide")), tf32(find_family(ns, name + "_tf32")) {}

const RegisteredFamily& ProductKernels::of(const Tensor& a) const {
  if (a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16) return *halves;
  const bool rounds = a.is_cuda() && a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
  return rounds ? *tf32 : *wide;
}

namespace {

// --- slang::mm

// Of matmul.slang.
const ProductKernels& kernels() {
  static const ProductKernels found = [] {
    const ProductKernels families("slang", "matrix_product");
    TORCH_CHECK(families.are_there(), "slang::mm: its kernel is not there: call torch_slang::load_builtin first, as ",
                "Python's `import torch_slang` does");
    return families;
  }();
  return found;
}

}  // namespace

bool lies_in_words(const Tensor& matrices) {
  const int64_t word = 16 / matrices.element_size();
  const auto is_dense = [&](int64_t d) { return matrices.size(d) == 1 || matrices.stride(d) == 1; };
  const auto is_pitch = [&](int64_t d) {
    return matrices.size(d) == 1 || (matrices.stride(d) > 0 && matrices.stride(d) % word == 0);
  };
  if (reinterpret_cast<uintptr_t>(matrices.const_data_ptr()) % 16 != 0) return false;
  if (matrices.stride(0) != 0 && !is_pitch(0)) return false;
  return (is_dense(2) && is_pitch(1)) || (is_dense(1) && is_pitch(2));
}

Tensor in_words(const Tensor& matrices) {
  constexpr int64_t kWorthIt = 1 << 14;  // elements; a copy takes a launch more
  if (!matrices.is_cuda() || matrices.element_size() != 2 || matrices.numel() < kWorthIt || lies_in_words(matrices)) {
    return matrices;
  }
  if (matrices.stride(0) == 0 && matrices.size(0) > 1) return in_words(matrices.narrow(0, 0, 1)).expand_as(matrices);
  if (matrices.stride(1) < matrices.stride(2)) return in_words(matrices.mT()).mT();
  const int64_t word = 16 / matrices.element_size(), width = matrices.size(2);
  const int64_t padded = (width + word - 1) / word * word;
  return at::empty({matrices.size(0), matrices.size(1), padded}, matrices.options())
      .narrow(2, 0, width)
      .copy_(matrices);
}

namespace {

Tensor run_batches(const Tensor& a, const Tensor& b) {
  const c10::IValue arguments[] = {in_words(a), in_words(b)};
  return kernels().of(a).current()->run(OpKind::Forward, arguments)[0];
}

Tensor mm_run(const Tensor& a, const Tensor& b) {
  check_mm(a, b);
  // Nothing to compute, or nothing to add up: the kernel need not know.
  if (a.numel() == 0 || b.numel() == 0) return at::zeros_symint(product_sizes(a, b), a.options());
  return a.dim() == 3 ? run_batches(a, b) : run_batches(a.unsqueeze(0), b.unsqueeze(0)).squeeze_(0);
}

Tensor mm_meta(const Tensor& a, const Tensor& b) {
  check_mm(a, b);
  return at::empty_symint(product_sizes(a, b), a.options());
}

// Sparse and nested tensors, and devices that there is no kernel for.
Tensor mm_unsupported(const Tensor& a, const Tensor& b) {
  check_mm(a, b);
  TORCH_INTERNAL_ASSERT(false, "slang::mm has operands that a backend takes");
}

// --- slang::matmul

// [..., M, K] x [..., K, N]: the elements of the result in their order, whatever their shape.
Tensor product_of(const Tensor& a, const Tensor& b) {
  const c10::SymInt m = a.sym_size(-2), k = a.sym_size(-1), n = b.sym_size(-1);
  if (a.dim() == 2 && b.dim() == 2) return mm().call(a, b);
  if (folds(a, b)) {
    return mm().call(a.reshape_symint({count(a.sym_sizes().slice(0, a.dim() - 1)), k}),
                     b.dim() == 2 ? b : b.reshape_symint({k, n}));
  }
  // The other way round only for the gradient, since the result must be transposed.
  if (c10::GradMode::is_enabled() && a.requires_grad() && folds(b.mT(), a)) {
    const Tensor transposed = product_of(b.mT(), a.mT());
    return at::_unsafe_view_symint(transposed, {count(leading_sizes(b)), n, m}).mT().contiguous();
  }
  const auto leading = at::infer_size_symdimvector(leading_sizes(a), leading_sizes(b));
  return mm().call(as_batch(a, leading), as_batch(b, leading));
}

Tensor checked_matmul(const Tensor& a, const Tensor& b) {
  const Tensor product = product_of(a.dim() == 1 ? a.unsqueeze(0) : a, b.dim() == 1 ? b.unsqueeze(1) : b);
  const auto sizes = result_sizes(a, b);
  return same_sizes(product.sym_sizes(), sizes) ? product : at::_unsafe_view_symint(product, sizes);
}

Tensor matmul_composite(const Tensor& a, const Tensor& b) {
  check_matmul({"slang::matmul"}, a, b);
  return checked_matmul(a, b);
}

// --- slang::dot

// A symbolic number is guarded on this one question, not on its value.
bool equals(const at::Scalar& number, double value) {
  if (!number.isSymbolic()) return number.toDouble() == value;
  return number.isFloatingPoint()
             ? number.toSymFloat().sym_eq(value).guard_bool(__FILE__, __LINE__)
             : number.toSymInt().sym_eq(static_cast<int64_t>(value)).guard_bool(__FILE__, __LINE__);
}

Tensor transposed(const char* name, const Tensor& tensor) {
  TORCH_CHECK(tensor.dim() >= 2, "slang::dot: expected ", name,
              ", which is to be transposed, to have at least 2 dimensions, but got shape ", tensor.sym_sizes());
  return tensor.mT();
}

Tensor dot_composite(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const at::Scalar& alpha,
                     const at::Scalar& beta, const std::optional<Tensor>& c) {
  const Names names{"slang::dot", transpose_a ? "the transpose of a" : "a", transpose_b ? "the transpose of b" : "b"};
  check_operands({"slang::dot"}, a, b);
  for (const auto& [name, number] : {std::pair("alpha", alpha), std::pair("beta", beta)}) {
    TORCH_CHECK(!number.isComplex(), "slang::dot: expected ", name, " to be a real number, but got ", number);
  }
  const bool adds = !equals(beta, 0);  // if not, nobody looks at c, as in BLAS
  TORCH_CHECK(c || !adds, "slang::dot: expected c to be a tensor, since beta is ", beta, ", but got None");
  const Tensor left = transpose_a ? transposed("a", a) : a, right = transpose_b ? transposed("b", b) : b;
  check_matmul(names, left, right);
  if (c) check_summand({"slang::dot"}, *c, a, result_sizes(left, right));

  Tensor result = checked_matmul(left, right);
  if (!equals(alpha, 1)) result = at::mul(result, alpha);
  return adds ? at::add(result, *c, beta) : result;
}

// --- Autocast and vmap

template <c10::DeviceType Device, class Function, Function* F>
constexpr auto* lower_precision = &at::autocast::WrapFunction<at::autocast::CastPolicy::lower_precision_fp, Device,
                                                              Function, Function, F>::type::call;

Tensor checked_mm(const Tensor& a, const Tensor& b) { return mm().call(a, b); }

template <c10::DeviceType Device>
void register_lower_precision(torch::Library& library) {
  library.impl("mm", lower_precision<Device, decltype(checked_mm), checked_mm>);
  library.impl("matmul", lower_precision<Device, decltype(matmul_composite), matmul_composite>);
  library.impl("dot", lower_precision<Device, decltype(dot_composite), dot_composite>);
}

// The mapped dimension is one more batch dimension.
Tensor mm_vmap(const Tensor& a, const Tensor& b) {
  check_mm(a, b);
  const VmapLevel level;
  const VmapOperand left = level.in_front(a), right = level.in_front(b);
  if (!left.is_mapped && !right.is_mapped) return mm().call(left.tensor, right.tensor);
  return level.result(matmul_composite(left.tensor, right.tensor));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(slang, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  library.def("mm(Tensor a, Tensor b) -> Tensor", tags);
  library.def("matmul(Tensor a, Tensor b) -> Tensor", tags);
  library.def(
      "dot(Tensor a, Tensor b, bool transpose_a=False, bool transpose_b=False, *, Scalar alpha=1, Scalar beta=0, "
      "Tensor? c=None) -> Tensor",
      tags);
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA})
    library.impl("mm", torch::dispatch(key, mm_run));
  for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::NestedTensorCPU,
                         c10::DispatchKey::NestedTensorCUDA}) {
    library.impl("mm", torch::dispatch(key, mm_unsupported));
  }
  library.impl("mm", torch::dispatch(c10::DispatchKey::Meta, mm_meta));
  library.impl("mm", torch::dispatch(c10::DispatchKey::Autograd, mm_autograd));
  library.impl("mm", torch::dispatch(c10::DispatchKey::FuncTorchBatched, mm_vmap));
  // Without the second key vmap would not look inside, but run them in a loop.
  for (const auto key : {c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::FuncTorchBatched}) {
    library.impl("matmul", torch::dispatch(key, matmul_composite));
    library.impl("dot", torch::dispatch(key, dot_composite));
  }
}

TORCH_LIBRARY_IMPL(slang, AutocastCPU, library) { register_lower_precision<c10::kCPU>(library); }
TORCH_LIBRARY_IMPL(slang, AutocastCUDA, library) { register_lower_precision<c10::kCUDA>(library); }

}  // namespace torch_slang::product
