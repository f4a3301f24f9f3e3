// The virtual threads that a call was given, or that were chosen for it.
#pragma once

#include <optional>

#include "kernel/virtual_threads.h"

namespace torch_slang {

struct ChosenThreads {
  VirtualThreads threads;
  bool is_measured = false;
};

// While it lives, this thread's calls take these virtual threads; with null, those that are likely to be fast.
class GivenThreads {
 public:
  explicit GivenThreads(const VirtualThreads* threads);
  ~GivenThreads();
  GivenThreads(const GivenThreads&) = delete;
  GivenThreads& operator=(const GivenThreads&) = delete;

  // Those of this thread for a kernel whose likely ones are `likely`; nothing if no object lives.
  static std::optional<VirtualThreads> for_kernel(const VirtualThreads& likely);

 private:
  const GivenThreads* outer_;
  const VirtualThreads* threads_;
};

}  // namespace torch_slang
