// Kernels of variants that did not compile in one search for the fastest: later ones, for other sizes, do not try them
// again.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "specialise/kernel_key.h"

namespace torch_slang {

class BrokenKernels {
 public:
  bool has(const std::string& variant, const KernelKey& key) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(all_.begin(), all_.end(),
                       [&](const auto& one) { return one.first == variant && one.second == key; });
  }
  void add(const std::string& variant, const KernelKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.emplace_back(variant, key);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, KernelKey>> all_;
};

}  // namespace torch_slang
