#include "tuning/chosen_threads.h"

namespace torch_slang {
namespace {

thread_local const GivenThreads* innermost = nullptr;

}  // namespace

GivenThreads::GivenThreads(const VirtualThreads* threads) : outer_(innermost), threads_(threads) { innermost = this; }
GivenThreads::~GivenThreads() { innermost = outer_; }

std::optional<VirtualThreads> GivenThreads::for_kernel(const VirtualThreads& likely) {
  if (innermost == nullptr) return std::nullopt;
  return innermost->threads_ != nullptr ? *innermost->threads_ : likely;
}

}  // namespace torch_slang
