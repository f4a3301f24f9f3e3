#include "operators/new_tensor.h"

#include <ATen/ops/empty.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "common/environment.h"

namespace torch_slang {
namespace {

constexpr size_t kLarge = size_t{4} << 20;  // bytes: two huge pages of x86

// Advice, no more: where the system does not follow it nothing changes.
at::Tensor in_huge_pages(at::Tensor fresh) {
#if defined(MADV_HUGEPAGE)
  if (!fresh.is_cpu() || fresh.nbytes() < kLarge) return fresh;
  static const bool wanted = environment_flag("TORCH_SLANG_HUGE_PAGES", true);
  if (!wanted) return fresh;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(fresh.mutable_data_ptr()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(fresh.mutable_data_ptr()) + fresh.nbytes()) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
  return fresh;
}

}  // namespace

at::Tensor new_empty(c10::SymIntArrayRef sizes, const at::TensorOptions& options) {
  return in_huge_pages(at::empty_symint(sizes, options));
}

at::Tensor new_empty(c10::IntArrayRef sizes, const at::TensorOptions& options) {
  return in_huge_pages(at::empty(sizes, options));
}

at::Tensor new_zeros(c10::IntArrayRef sizes, const at::TensorOptions& options) {
  return new_empty(sizes, options).zero_();
}

}  // namespace torch_slang
