// The tests that a kernel compiled with checks makes before each access, and the place where it notes the first fault of a
// launch (TslFault in abi.h). The access is then left out, and the kernel goes on. TSL_CHECKS is 1 for bounds, 2 for all.
//
// Note [checks that vanish]
//   Bounds are checked on the CPU unless somebody says otherwise, so loops over threads must vectorise all the same. They do
//   where the compiler concludes that an index is inside (Note [host loop]): then no test is left, since a
//   fault is put together from plain values where it is found, and nothing of the kernel object's or the view's address
//   leaves the loop.
//
// Note [cheap faults]
//   A kernel may have hundreds of checks. The code that reports a fault hardly ever runs, but it took most of a kernel's
//   compile time. On the host each check makes one call whose arguments fit in registers. The called function reads the
//   block, y and z of the thread from its ThreadRow, and the sizes of the views from the argument block.
#pragma once

#include "prelude/kernel_base.h"

#if TSL_NOTES_FAULTS

#if TSL_CUDA
#define TSL_OUT_OF_LINE static __attribute__((device)) __noinline__
#else
// Not `cold`: g++ 12 then takes the loop around it for one that never runs, and does not vectorise it.
#define TSL_OUT_OF_LINE static __attribute__((noinline))
#endif

namespace tsl {

// The indices of one access.
template <int kCount> struct Place { uint index[kCount]; };
TSL_INLINE Place<1> place_of(uint i) { return {{i}}; }
TSL_INLINE Place<2> place_of(uint i, uint j) { return {{i, j}}; }
TSL_INLINE Place<3> place_of(uint i, uint j, uint k) { return {{i, j, k}}; }
TSL_INLINE Place<4> place_of(uint i, uint j, uint k, uint l) { return {{i, j, k, l}}; }
TSL_INLINE Place<5> place_of(uint i, uint j, uint k, uint l, uint m) { return {{i, j, k, l, m}}; }
TSL_INLINE Place<1> place_of(uint1 at) { return {{at.x}}; }
TSL_INLINE Place<2> place_of(uint2 at) { return {{at.x, at.y}}; }
TSL_INLINE Place<3> place_of(uint3 at) { return {{at.x, at.y, at.z}}; }
TSL_INLINE Place<4> place_of(uint4 at) { return {{at.x, at.y, at.z, at.w}}; }

// Two words in one: a call with few arguments keeps the code around it small, and quick to compile.
TSL_INLINE ulonglong both(uint low, uint high) { return ulonglong(high) << 32 | low; }

// The thread that finds a fault.
struct Witness {
#if TSL_CUDA
  TslFault* first;
  ulonglong thread_xy, thread_z_block_x, block_yz;
  TSL_INLINE TslFault* fault() const { return first; }
  TSL_INLINE uint3 thread() const { return {uint(thread_xy), uint(thread_xy >> 32), uint(thread_z_block_x)}; }
  TSL_INLINE uint3 block() const { return {uint(thread_z_block_x >> 32), uint(block_yz), uint(block_yz >> 32)}; }
#else
  const ThreadRow* row;
  uint x;
  TSL_INLINE TslFault* fault() const { return row->args->header.fault; }
  TSL_INLINE uint3 thread() const { return {x, row->y, row->z}; }
  TSL_INLINE uint3 block() const { return row->block; }
#endif
};

TSL_INLINE Witness witness(const ThreadBase& thread) {
#if TSL_CUDA
  return {thread.args.header.fault, both(thread.threadIdx.x, thread.threadIdx.y),
          both(thread.threadIdx.z, thread.blockIdx.x), both(thread.blockIdx.y, thread.blockIdx.z)};
#else
  return {thread.row, thread.threadIdx.x};
#endif
}

// `what`: the view's number, the dimension in 8 bits above, the kind above those. `sizes`: size and other.
template <int kCount>
TSL_OUT_OF_LINE void note_fault(Witness witness, ulonglong at, ulonglong what, ulonglong sizes, Place<kCount> place) {
  TslFault* const first = witness.fault();
  if (!first || compare_and_swap(&first->kind, uint(kTslNoFault), uint(what >> 40)) != kTslNoFault) return;
  first->view = int(uint(what));
  first->dimension = int(uint(what >> 32) & 255u);
  first->count = kCount;
  for (int i = 0; i < kCount; ++i) first->index[i] = place.index[i];
  first->size = uint(sizes);
  first->other = uint(sizes >> 32);
  first->file = uint(at >> 32);
  first->line = uint(at);
  const uint3 thread = witness.thread(), block = witness.block();
  first->thread[0] = thread.x;
  first->thread[1] = thread.y;
  first->thread[2] = thread.z;
  first->block[0] = block.x;
  first->block[1] = block.y;
  first->block[2] = block.z;
  __threadfence();
}

}  // namespace tsl

#endif

#if TSL_CHECKS

namespace tsl {

template <int kCount>
TSL_INLINE void report(const View& view, const Place<kCount>& at, TslFaultKind kind, int dimension, uint size, uint other) {
  if (!view.kernel) return;
  note_fault(witness(*view.kernel), view.kernel->tsl_at, both(uint(view.id), uint(kind) << 8 | uint(dimension)),
             both(size, other), at);
}

TSL_INLINE void report_local(const ThreadBase* thread, LocalKind kind, longlong index, size_t count) {
  note_fault(witness(*thread), thread->tsl_at, ulonglong(kTslLocalIndex) << 40, both(uint(count), kind),
             place_of(uint(index), uint(ulonglong(index) >> 32)));
}

TSL_INLINE bool check_dimension(const View& view, uint dimension) {
  if (TSL_CHECKS == 2 && dimension >= view.dimensionCount) {
    report(view, place_of(dimension), kTslNoDimension, 0, view.dimensionCount, 0);
    return false;
  }
  return dimension < kTslMaxDims;
}

// A dimension that the view lacks counts as one of size 1. Without a branch of its own: a kernel has hundreds of checks, and
// the compiler's time grows faster than the number of their branches.
TSL_INLINE bool is_inside(const View& view, int dimension, uint index) {
  return bool(int(index < view.sizes[dimension]) | int(index < uint(uint(dimension) >= view.dimensionCount)));
}

// In scalars, which the compiler sees through sooner than through an array: before it looks for loops to vectorise.
template <int kDimension, class... Index>
TSL_INLINE bool are_inside(const View& view, uint first, Index... rest) {
  if constexpr (sizeof...(rest) == 0) return is_inside(view, kDimension, first);
  else return bool(int(is_inside(view, kDimension, first)) & int(are_inside<kDimension + 1>(view, rest...)));
}

// The rank of a view and its sizes. On the host they are found where they are needed, in the argument block.
#if TSL_CUDA
template <int kCount> struct Bounds {
  uint dimensions;
  Place<kCount> sizes;
  TSL_INLINE uint rank(Witness, int) const { return dimensions; }
  TSL_INLINE uint size(Witness, int, int dimension) const { return sizes.index[dimension]; }
};
TSL_INLINE Place<1> sizes_of(const View& view, Place<1>) { return place_of(view.sizes[0]); }
TSL_INLINE Place<2> sizes_of(const View& view, Place<2>) { return place_of(view.sizes[0], view.sizes[1]); }
TSL_INLINE Place<3> sizes_of(const View& view, Place<3>) {
  return place_of(view.sizes[0], view.sizes[1], view.sizes[2]);
}
TSL_INLINE Place<4> sizes_of(const View& view, Place<4>) {
  return place_of(view.sizes[0], view.sizes[1], view.sizes[2], view.sizes[3]);
}
TSL_INLINE Place<5> sizes_of(const View& view, Place<5>) {
  return place_of(view.sizes[0], view.sizes[1], view.sizes[2], view.sizes[3], view.sizes[4]);
}
template <int kCount> TSL_INLINE Bounds<kCount> bounds_of(const View& view, Place<kCount> at) {
  return {view.dimensionCount, sizes_of(view, at)};
}
#else
template <int kCount> struct Bounds {
  TSL_INLINE uint rank(Witness witness, int id) const { return witness.row->args->views[id].dimensionCount; }
  TSL_INLINE uint size(Witness witness, int id, int dimension) const {
    return witness.row->args->views[id].sizes[dimension];
  }
};
template <int kCount> TSL_INLINE Bounds<kCount> bounds_of(const View&, Place<kCount>) { return {}; }
#endif

// An access outside view number `id`: finds out which dimension is at fault, out of the kernel's way.
template <int kCount>
TSL_OUT_OF_LINE void note_outside(Witness witness, ulonglong at, int id, Place<kCount> place, Bounds<kCount> bounds) {
  const uint rank = bounds.rank(witness, id);
  int dimension = 0;
  const bool fits = TSL_CHECKS != 2 || rank == kCount;
  while (fits && dimension + 1 < kCount &&
         (place.index[dimension] < bounds.size(witness, id, dimension) ||
          (uint(dimension) >= rank && place.index[dimension] == 0))) {
    ++dimension;
  }
  const bool is_missing = !fits || uint(dimension) >= rank;
  const uint kind = is_missing ? kTslWrongRank : kTslOutOfBounds;
  const uint size = is_missing ? rank : bounds.size(witness, id, dimension);
  note_fault(witness, at, both(uint(id), kind << 8 | uint(dimension)), both(size, 0), place);
}

template <class... Index>
TSL_INLINE bool check_scalars(const View& view, Index... index) {
  const bool fits = TSL_CHECKS != 2 || view.dimensionCount == sizeof...(index);
  if (fits && are_inside<0>(view, index...)) [[likely]] return true;
  if (!view.kernel) return false;
  const auto place = place_of(index...);
  note_outside(witness(*view.kernel), view.kernel->tsl_at, view.id, place, bounds_of(view, place));
  return false;
}

template <class... Index> TSL_INLINE bool check_index(const View& view, Index... index) {
  return check_scalars(view, index...);
}
TSL_INLINE bool check_index(const View& view, uint1 at) { return check_scalars(view, at.x); }
TSL_INLINE bool check_index(const View& view, uint2 at) { return check_scalars(view, at.x, at.y); }
TSL_INLINE bool check_index(const View& view, uint3 at) { return check_scalars(view, at.x, at.y, at.z); }
TSL_INLINE bool check_index(const View& view, uint4 at) { return check_scalars(view, at.x, at.y, at.z, at.w); }

#if TSL_CHECKS == 2
template <class T> TSL_INLINE void check_numbers(const ThreadBase* thread, T a, T b) {
  const bool overflows = kIsSigned<T> && b == T(-1) && is_negative(a) && a == T(0ull - ulonglong(a));
  if (b != T(0) && !overflows) return;
  note_fault(witness(*thread), thread->tsl_at, ulonglong(kTslDivision) << 40, both(0, overflows), place_of(0u, 0u));
}

// Component `at` of a vector; the same number for all if it is one.
template <class V> TSL_INLINE auto component_of(const V& value, int at) {
  if constexpr (kIsVector<V>) return ::_slang_vector_get_element(value, at);
  else return value;
}

template <class A, class B> TSL_INLINE void check_division(const ThreadBase* thread, const A& a, const B& b) {
  if constexpr (kIsInteger<A> && kIsInteger<B>) {
    using T = typename Choose<IsSame<A, B>::value, A, decltype(a / b)>::type;
    check_numbers<T>(thread, a, b);
  } else if constexpr (kIsVector<A> || kIsVector<B>) {
    using V = typename Choose<kIsVector<B>, B, A>::type;
    if constexpr (kIsInteger<ElementOf<V>>) {
      for (int i = 0; i < Traits<V>::size; ++i) check_division(thread, component_of(a, i), component_of(b, i));
    }
  }
}
template <class T, int R, int C>
TSL_INLINE void check_division(const ThreadBase* thread, const Matrix<T, R, C>& a, const Matrix<T, R, C>& b) {
  for (int r = 0; r < R; ++r) check_division(thread, a.rows[r], b.rows[r]);
}
#endif

}  // namespace tsl

#endif

namespace tsl {

template <size_t N> struct Length {};
template <class T, size_t N> Length<N> length_of(const FixedArray<T, N>&);  // of its type alone

// Whether an array of N elements has one for iteration `counter`. If not, the loop ends, and what looks for the last
// iteration finds one that is there.
template <size_t N> TSL_INLINE bool has_room(const ThreadBase& kernel, ulonglong at, int& counter, Length<N>) {
  if (counter < int(N)) return true;
#if TSL_CHECKS
  note_fault(witness(kernel), uint(at) == 0 ? kernel.tsl_at : at, ulonglong(kTslLongLoop) << 40, both(uint(N), 0),
             place_of(uint(counter), 0u));
#endif
  counter = int(N) - 1;
  return false;
}

// Whether all lanes that are here load the same element.
template <class Index>
TSL_INLINE bool check_fixed(const View& view, Index index) {
#if TSL_CHECKS == 2 && (TSL_CUDA || TSL_WAVES)
  const WarpMask lanes = __activemask();
  const longlong own = view.number_of(index);
  if (shuffle(lanes, own, __ffs(int(lanes)) - 1) != own) {
    report(view, place_of(index), kTslNotFixed, 0, 0, 0);
    return false;
  }
#endif
  return true;
}

#if TSL_CHECKS == 2

// Note [owners]
//   Two words for the loads of an element and two for its stores: who has promised to be alone there, and who has come without
//   a promise. Each is 1 + the thread's number, and a bit: it promised to come once; it was not the only one. Who comes leaves
//   its word, then looks at the other one, so that of two who meet at least one sees it.
//
//   A thread's own accesses come one after the other, and `+=` and atomic additions by one thread agree; a load that
//   promises to be the only one must not meet even those. A store without a promise leaves no gradient behind, so a
//   storeOnce that comes after it in the backward is right: it alone stands before it in the kernel.
constexpr uint kOwnerFlag = 0x80000000u;

// The word of who should not have been met by thread number `self` - 1, or zero.
TSL_OUT_OF_LINE uint meet(uint* alone, uint self, bool stores, Promise promise) {
  uint* among_others = alone + 1;
  if (promise == Promise::None) {
    const uint first = compare_and_swap(among_others, 0u, self);
    if (first != 0u && (first & ~kOwnerFlag) != self) compare_and_swap(among_others, first, first | kOwnerFlag);
    __threadfence();
    const uint met = compare_and_swap(alone, 0u, 0u);
    return met == self ? 0u : met;
  }
  const bool once = promise == Promise::Once;
  const uint mine = once ? self | kOwnerFlag : self;
  const uint before = compare_and_swap(alone, 0u, mine);
  if (before != 0u && (once || before != mine)) return before;
  __threadfence();
  const uint met = compare_and_swap(among_others, 0u, 0u);
  return met == self && (stores || !once) ? 0u : met;
}

template <class Index>
TSL_INLINE bool check_promise(const View& view, Index index, bool stores, Promise promise) {
  uint* words = reinterpret_cast<uint*>(gradient_slot(view.kernel->args, view, kTslOwners, 0));
  if (!words) return true;
  const uint self = uint(view.kernel->thread_number() % (kOwnerFlag - 1)) + 1u;
  const uint met = meet(words + 4 * view.number_of(index) + (stores ? 2 : 0), self, stores, promise);
  if (met == 0u) return true;
  report(view, place_of(index), promise == Promise::None ? kTslUsedBesidePromise : kTslUsedTwice, 0, 0,
         (met & ~kOwnerFlag) - 1u);
  return false;
}

#endif

// Whether the promises for an element hold, as far as this access shows.
template <class Index>
TSL_INLINE bool keeps_promise(const View& view, Index index, bool stores, Promise promise) {
#if TSL_CHECKS == 2
  if (promise != Promise::None) mark_promise(view.id);
  // Elsewhere there is nothing to meet, or an index that is reported.
  if (wanted(view, index)) return check_promise(view, index, stores, promise);
#endif
  return true;
}

}  // namespace tsl
