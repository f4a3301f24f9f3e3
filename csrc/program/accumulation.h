// The table of gradients: how the gradient of a differentiable view is gathered, one row for each kind of view.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace torch_slang {

enum class Accumulation : int8_t {
  Atomic,
  Replicated,
  Recorded,
  Custom
};  // Custom, of the user's wrappers, is the last

// Where the kernel adds. What reads it is a `switch` without default, so that a new kind is a compile error wherever it is forgotten.
enum class GradientMemory : int8_t {
  Own,  // the gradient itself
  Replicas,  // N times the gradient's memory, which are summed afterwards
  Records,  // N pairs of an index and a value for each thread, which are added to the gradient's memory afterwards
};

// Note [table of gradients]
//   A new kind of view is a row here, a struct in slang/wrapper.slang and its alias in slang/view.slang. One that adds in a way of
//   its own is in addition a branch in prelude/gradients.h, kernel_base.h and wave_sums.h; a new kind of memory is what
//   gradients/gathered_gradient.cpp makes and sums.
struct AccumulationRow {
  Accumulation kind;
  const char* name;  // in a Program, and of [TorchSlangAccumulation] in slang/wrapper.slang
  const char* view;  // as users declare it; null: by the name of their own wrapper
  GradientMemory memory;
  const char* kept;  // the word of `explain`
  bool is_ours;  // what an addition does is known, so that a thread may keep elements that are its own
  bool may_sum_first;  // threads may sum additions in registers before they add
  bool may_join_lanes;  // lanes may sum additions to neighbouring elements before they add
};

const AccumulationRow& row_of(Accumulation kind);
inline const char* name_of(Accumulation kind) { return row_of(kind).name; }
std::optional<Accumulation> accumulation_named(std::string_view name);

// Replicas and records have a count N, and hold numbers of a type that is wide enough to sum in.
constexpr bool has_copies(GradientMemory memory) {
  switch (memory) {
    case GradientMemory::Own: return false;
    case GradientMemory::Replicas:
    case GradientMemory::Records: return true;
  }
  return false;
}

// Whether threads that run apart add to copies of their own.
constexpr bool has_replicas(GradientMemory memory) {
  switch (memory) {
    case GradientMemory::Replicas: return true;
    case GradientMemory::Own:
    case GradientMemory::Records: return false;
  }
  return false;
}

// How many slots describe it: Note [gradient slots] in prelude/abi.h.
constexpr int slot_count(GradientMemory memory) {
  switch (memory) {
    case GradientMemory::Own: return 1;
    case GradientMemory::Replicas: return 3;
    case GradientMemory::Records: return 4;
  }
  return 0;
}

}  // namespace torch_slang
