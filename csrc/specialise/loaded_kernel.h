// A compiled kernel, and the facts that its code showed when it was compiled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "operators/kernel_facts.h"
#include "specialise/kernel_key.h"
#include "specialise/own_places.h"

namespace torch_slang {

// What a kernel does with the gradient of one leaf.
struct GradientUse {
  bool consumed = false;  // the kernel stores to the view: it reads the gradient there and leaves zero behind
  bool added = false;  // it is added to atomically
  bool promised = false;  // an access to it promises to be alone
};

// What the last launch was like, for those who look.
struct LastLaunch {
  std::atomic<uint64_t> threads{0};
  std::atomic<uint64_t> bytes{0};  // of its views, each element once
  std::atomic<bool> is_measured{false};  // its virtual threads were chosen by measurement
};

struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  VirtualThreads threads;  // that it was compiled with
  bool has_wave_sums = false;  // Note [wave sums] in prelude/wave_sums.h
  bool holds_sums = false, joins_neighbours = false;  // these and the next as in KernelSource
  int most_registers = 0;
  mutable LastLaunch last;
  std::vector<GradientUse> gradients;  // by leaf
  std::vector<int> scratch_outputs;  // Backward: outputs whose values the kernel reads back, so they need memory
  std::vector<bool> unused;  // Backward, by leaf: inputs whose values the kernel never looks at
  // Backward, by leaf: threads touch nothing but their own elements of the gradient, so it is stored whole, and an
  // output's is only read.
  std::vector<bool> own;
  std::vector<std::optional<PlaceDims>> own_dims;  // Backward of a plain function, by leaf: Note [own places]
  std::vector<bool>
      indirect;  // by leaf: which elements are read, only running tells, so vectors serve no neighbours (Note [vector accesses])
};

// What the facts of all kernels have in common, of kernels and of plain functions.
KernelFacts common_facts(const KernelKey& key, const LoadedKernel& loaded);

}  // namespace torch_slang
