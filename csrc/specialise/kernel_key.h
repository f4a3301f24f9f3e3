// The key of a compiled kernel.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "operators/op_signature.h"
#include "program/program.h"
#include "specialise/elementwise_variant.h"

namespace torch_slang {

// What a kernel is specialised for.
struct KernelKey {
  OpKind kind;
  uint64_t strided =
      0;  // bit k: view k is not contiguous, though its rank is known; the last bit: of all from there on
  bool independent = true;   // no written view overlaps another view or itself
  c10::Device device = c10::kCPU;
  std::vector<ElementType> types = {};  // by type parameter
  std::vector<int64_t> sizes = {};  // by size parameter, of an elementwise function
  ElementwiseVariant variant = {};  // of an elementwise function
  VirtualThreads threads = {};
  uint64_t unwanted = 0;  // bit k: nobody wants the gradient that view k is
  int sample_dims = 0;  // of a GPU's kernel for calls under vmap: Note [samples] in backend/samples.h
  bool wraps = false;  // of the CPU: indices of threads along x do not fit in 32 bits
  std::array<uint32_t, 3> block = {0, 0, 0};  // the caller's, for which a kernel for any block has too many registers

  bool operator==(const KernelKey&) const = default;
};

// A view's bit in the masks of KernelKey.
constexpr uint64_t view_bit(int view) { return uint64_t{1} << (view < 63 ? view : 63); }

// Whether nobody asked for this gradient.
bool is_unwanted(const KernelKey& key, const Leaf& leaf);

}  // namespace torch_slang
