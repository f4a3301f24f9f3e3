#include "backend/samples.h"

#include <algorithm>
#include <cstring>

namespace torch_slang {
namespace {

// Whether dimension d + 1 of all pointers follows dimension d without a gap.
bool follows(const Samples& samples, size_t d) {
  const size_t dims = samples.sizes.size();
  for (size_t at = 0; at < samples.steps.size(); at += dims) {
    if (samples.steps[at + d] != samples.steps[at + d + 1] * int64_t{samples.sizes[d + 1]}) return false;
  }
  return true;
}

// Makes one of dimensions d and d + 1. `kept`: the one whose steps remain.
Samples without(const Samples& samples, size_t d, size_t kept) {
  const size_t dims = samples.sizes.size();
  Samples result;
  result.offsets = samples.offsets;
  for (size_t i = 0; i < dims; ++i) {
    if (i != d) result.sizes.push_back(i == d + 1 ? samples.sizes[d] * samples.sizes[d + 1] : samples.sizes[i]);
  }
  for (size_t at = 0; at < samples.steps.size(); at += dims) {
    for (size_t i = 0; i < dims; ++i) {
      if (i != d) result.steps.push_back(samples.steps[at + (i == d + 1 ? kept : i)]);
    }
  }
  return result;
}

}  // namespace

uint64_t Samples::count() const {
  uint64_t product = 1;
  for (const uint32_t size : sizes) product *= size;
  return product;
}

Samples joined(const Samples& samples) {
  Samples result = samples;
  for (size_t d = result.sizes.size() - 1; d-- > 0;) {
    if (result.sizes[d + 1] == 1) {
      result = without(result, d, d);
    } else if (result.sizes[d] == 1 || follows(result, d)) {
      result = without(result, d, d + 1);
    }
  }
  return result;
}

void move_to_sample(const Samples& samples, uint64_t number, char* args) {
  const size_t dims = samples.sizes.size();
  c10::SmallVector<int64_t, 4> at(dims);
  for (size_t d = dims; d-- > 0; number /= samples.sizes[d]) at[d] = static_cast<int64_t>(number % samples.sizes[d]);
  const int64_t* step = samples.steps.data();
  for (const size_t offset : *samples.offsets) {
    int64_t bytes = 0;
    for (size_t d = 0; d < dims; ++d) bytes += *step++ * at[d];
    if (bytes == 0) continue;
    uint64_t pointer;
    std::memcpy(&pointer, args + offset, sizeof pointer);
    pointer += static_cast<uint64_t>(bytes);
    std::memcpy(args + offset, &pointer, sizeof pointer);
  }
}

}  // namespace torch_slang
