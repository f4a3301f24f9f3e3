// Which sample of a call under torch.vmap a hardware block runs: Note [samples] in backend/samples.h. The grid's y is the sample,
// since the blocks of each stand in one row (TSL_FLAT_GRID).
#pragma once

#include "prelude/target.h"

#if TSL_CUDA && TSL_SAMPLE_DIMS

namespace tsl {

struct SampleIndex { uint at[TSL_SAMPLE_DIMS]; };

// By recursion rather than in loops, so that all indices of arrays are constants and the copy stays in registers.
template <int kDimension = TSL_SAMPLE_DIMS - 1>
TSL_INLINE void find_sample(const TslArgs& args, uint number, SampleIndex& index) {
  if constexpr (kDimension == 0) {
    index.at[0] = number;
  } else {
    const uint size = args.sample_sizes[kDimension];
    index.at[kDimension] = number % size;
    find_sample<kDimension - 1>(args, number / size, index);
  }
}

template <int kPointer, int kDimension = 0>
TSL_INLINE long long bytes_to_sample(const TslArgs& args, const SampleIndex& index) {
  if constexpr (kDimension == TSL_SAMPLE_DIMS) return 0;
  else return args.sample_steps[kPointer][kDimension] * index.at[kDimension] + bytes_to_sample<kPointer, kDimension + 1>(args, index);
}

template <int kView = 0> TSL_INLINE void move_views(TslArgs& args, const SampleIndex& index) {
  if constexpr (kView < TSL_VIEW_COUNT) {
    args.views[kView].data += bytes_to_sample<kView>(args, index);
    move_views<kView + 1>(args, index);
  }
}

template <int kFirst> TSL_INLINE void move_slots(TslArgs&, const SampleIndex&) {}
template <int kFirst, int kSlot, int... kRest> TSL_INLINE void move_slots(TslArgs& args, const SampleIndex& index) {
  args.slots[kSlot] += ulonglong(bytes_to_sample<kFirst>(args, index));
  move_slots<kFirst + 1, kRest...>(args, index);
}

// The argument block of the sample that this hardware block computes. An absent argument has steps of zero and stays absent.
TSL_INLINE TslArgs of_sample(const TslArgs& all) {
  TslArgs args = all;
  SampleIndex index;
  find_sample(args, args.first_sample + blockIdx.y, index);
  move_views(args, index);
#if TSL_POINTER_SLOT_COUNT
  move_slots<TSL_VIEW_COUNT, TSL_POINTER_SLOTS>(args, index);
#endif
  return args;
}

}  // namespace tsl

#endif
