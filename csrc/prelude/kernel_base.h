// What the kernel object inherits. Emitted functions are members of `struct Kernel : tsl::KernelBase<Own>`, so the index
// built-ins that the text names (threadIdx, ...) are fields, and one real thread can run several virtual ones, each with a
// fresh object. So are the primitives that the Slang view library names (slang/device.slang): they need to know the thread.
#pragma once

#include "prelude/neighbours.h"
#include "prelude/own.h"
#include "prelude/vector_access.h"
#include "prelude/shared.h"
#include "prelude/value_sums.h"

#if TSL_NOTES_FAULTS || TSL_LOCATE
#define TSL_AT(file, line) tsl_at = ulonglong(file) << 32 | line
#else
#define TSL_AT(file, line)
#endif

// Whether a loop may go on: Note [loop state] in compiler/emit/loop_state.h. Host compilers unroll and vectorise what they know to
// end soon, so there it stands without checks, too.
#if TSL_CHECKS || !TSL_CUDA
#define TSL_ITERATE(file, line, counter, kept) \
  tsl::has_room(*this, ulonglong(file) << 32 | line, counter, decltype(tsl::length_of(kept))())
#else
#define TSL_ITERATE(file, line, counter, kept) true
#endif

#if TSL_SHARED_SUMS || TSL_MAP_SUMS || TSL_LANES > 1  // generated, too
struct TslShared;
template <class Thread, class Index, class T>
TSL_INLINE bool tsl_add_first(const Thread& thread, int view, Index index, T amount);
#endif

namespace tsl {

// Defined in checks.h; true where nothing is checked.
template <class Index> TSL_INLINE bool check_fixed(const View& view, Index index);
template <class Index> TSL_INLINE bool check_owner(const View& view, Index index, bool stores, bool again);

#if !TSL_CUDA
// Where a row of threads stands: all have the same block, y and z. A thread that finds a fault reports its place from here
// (Note [cheap faults] in checks.h), so that each check passes one address and not every number.
struct ThreadRow {
  const TslArgs* args;
  uint3 block;
  uint y, z;
};
#endif

TSL_INLINE ulonglong block_count(uint3 grid) { return ulonglong(grid.x) * grid.y * grid.z; }
TSL_INLINE ulonglong block_number(uint3 block, uint3 grid) {
  return (ulonglong(block.z) * grid.y + block.y) * grid.x + block.x;
}

// A thread of the launch.
struct ThreadBase {
  uint3 threadIdx, blockIdx, blockDim, gridDim;
  const TslArgs& args;
#if TSL_LANES > 1
  TslVectors* vectors = nullptr;  // of the group of lanes that the thread is one of; null: it is on its own
#endif
#if TSL_SHARED_SUMS || TSL_MAP_SUMS
  TslShared* shared = nullptr;  // Note [shared elements], Note [few elements]; null: it adds to memory
#endif
#if TSL_OWN_PLACES
  uint places[TSL_OWN_PLACES] = {};  // Note [own places] in specialise/own_places.h
#endif
  uint lane = 0;
#if TSL_NOTES_FAULTS || TSL_LOCATE
  ulonglong tsl_at;  // the user's statement that runs: TSL_AT(file, line)
#endif
#if TSL_NOTES_FAULTS && !TSL_CUDA
  const ThreadRow* row;
  TSL_INLINE void stand_in(const ThreadRow& its_row) { row = &its_row; }
#elif !TSL_CUDA
  TSL_INLINE void stand_in(const ThreadRow&) {}
#endif

  // Spelled as kernels spell it.
  template <int kAxis> TSL_INLINE uint coordinate() const {
    if constexpr (kAxis == 0) return blockIdx.x * blockDim.x + threadIdx.x;
    else if constexpr (kAxis == 1) return blockIdx.y * blockDim.y + threadIdx.y;
    else return blockIdx.z * blockDim.z + threadIdx.z;
  }

#if TSL_CUDA
  TSL_INLINE TensorView tsl_view(int k) const {
    TensorView view = tsl_make_view(args, k);
#if TSL_CHECKS
    view.kernel = this;
#endif
#if TSL_LANES > 1
    view.lane = {vectors, lane, {coordinate<0>(), coordinate<1>(), coordinate<2>()}};
#endif
    return view;
  }
#else
  TSL_INLINE TensorView tsl_view(int k) const {
    TensorView handle{&args, k, tsl_make_view(args, k).dimensionCount};
#if TSL_CHECKS
    handle.kernel = this;
#endif
    return handle;
  }
#endif
  TSL_INLINE View view(int k) const { return tsl_view(k); }

#if TSL_LOCAL_INDICES
  // In place of the functions of these names, which emitted text calls: Note [local indices].
  template <class V, class I> TSL_INLINE tsl::ElementOf<V> _slang_vector_get_element(V vector, I index) const {
    return ::_slang_vector_get_element(vector, int(inside<kComponents>(index_of(this, index), Traits<V>::size)));
  }
  template <class V, class I> TSL_INLINE tsl::ElementOf<V>* _slang_vector_get_element_ptr(V* vector, I index) const {
    return &vector->x + inside<kComponents>(index_of(this, index), Traits<V>::size);
  }
#endif

  // The thread's number in the launch, block by block.
  TSL_INLINE ulonglong thread_number() const {
    return block_number() * (blockDim.x * blockDim.y * blockDim.z) + thread_in_block();
  }
  TSL_INLINE ulonglong thread_count() const { return block_count() * (blockDim.x * blockDim.y * blockDim.z); }
  TSL_INLINE uint thread_in_block() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  TSL_INLINE ulonglong block_number() const { return tsl::block_number(blockIdx, gridDim); }
  TSL_INLINE ulonglong block_count() const { return tsl::block_count(gridDim); }
};

// Whether the lanes of a wave sum what they add: Note [wave sums] in wave_sums.h, which kernels that do so have besides.
template <class Own> constexpr bool kHasWaveSums = false;

// Own: the registers of Note [own elements], generated for each kernel.
template <class Own>
struct KernelBase : ThreadBase {
  ValueSums* value_sums;  // of the loop that runs this thread, and the thread's number there
  uint loop_thread;
  uint recorded[TSL_VIEW_COUNT > 0 ? TSL_VIEW_COUNT : 1] = {};  // additions that this thread has recorded, by view
  Own own = {};
  Neighbours neighbours;

#if !TSL_CUDA
  // Members, since the C library has a clock() too.
  static TSL_INLINE longlong clock64() {
#if defined(__x86_64__)
    return longlong(__builtin_ia32_rdtsc());
#else
    longlong ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
  }
  static TSL_INLINE int clock() { return int(clock64()); }
#endif

  // A value parameter's component, which its slot holds in its own type.
  template <class T> TSL_INLINE T tsl_slot(int slot) const {
    return *reinterpret_cast<const T*>(&args.slots[slot]);
  }

  // The same of a differentiable value: in memory of the device if the pointer is not null, else in the slots.
  template <class T> TSL_INLINE T tsl_value(int slot, int pointer_slot, int component) const {
    const T* values = reinterpret_cast<const T*>(args.slots[pointer_slot]);
#if TSL_CUDA
    return values ? values[component] : tsl_slot<T>(slot + component);
#else  // one load: of a branch compilers make two loops
    return *(values ? values + component : reinterpret_cast<const T*>(&args.slots[slot + component]));
#endif
  }

  template <class T> TSL_INLINE T tsl_tangent(int gradient_slot, int component) const {
    const T* tangent = reinterpret_cast<const T*>(args.slots[gradient_slot]);
    return tangent ? tangent[component] : T(0);
  }

  // Adds to the gradient of a value. Every thread of the launch comes here, for each component once: the wrapper ends so.
  template <class T> TSL_INLINE void tsl_gradient(int gradient_slot, int component, T amount) const {
    value_sums->give(*this, gradient_slot, component, loop_thread, amount);
  }

  // Gradients of views: Note [accumulation modes] in slang/wrapper.slang. First of all the thread's own elements.
  template <class T, class Index, class M>
  TSL_INLINE void tsl_accumulate(const View& view, Index index, T amount, M mode) {
    if (!keeps_promise(view, index, false, Promise::None)) return;
    const bool is_kept = is_own(view, index, amount, OwnAdd{}) || is_summed_first(view, index, amount);
    if constexpr (kHasWaveSums<Own>) {
      if constexpr (M::value <= 0) {
        const bool is_added = !is_kept && may_be_added_to(view, index);
        if (is_added) mark_add(view.id);
        return own.wave_sums.add(*this, view, index, amount, mode, is_added);
      }
    }
    if constexpr (M::value == kAtomic && IsSame<T, float>::value) {
      if (neighbours.are_open()) {
        if (is_kept || !may_be_added_to(view, index)) return;
        mark_add(view.id);
        return neighbours.add(element_at<float>(view, ulonglong(view.offset(index))), amount);
      }
    }
    if (is_kept || !is_added_to(view, index)) return;
    if constexpr (M::value == kAtomic && kIsFloat<T>) {
      // Most additions are of one number. Compilers take half the time for these lines.
      mark_add(view.id);
      const SumOf<T> sums[] = {SumOf<T>(amount)};
      add_to_memory(view, view.address_of<T>(index), sums);
    } else {
      accumulate<Alone>(view, index, amount, mode);
    }
  }
  // An atomic addition of the user's whose result nobody reads: compiler/emit/unread_additions.h.
  template <class T> TSL_INLINE void tsl_add_only(AtomicPlace<T> place, Argument<T> amount) {
    if constexpr (kHasWaveSums<Own>) own.wave_sums.add_only(place, amount);
    else atomicAdd(place, amount);
  }
  // A sum of the lanes of a wave: the same lane comes for the same number of a run each time.
  TSL_INLINE void tsl_add_sum(uint target, float sum) const {
#if TSL_CUDA && TSL_HELD_SUMS
    value_sums->held.add(args, target, sum);
#elif TSL_CUDA
    add_to(args, target, sum);
#endif
  }
  template <class T, class Index, class M>
  TSL_INLINE void tsl_accumulate_fixed(const View& view, Index index, T amount, M mode) {
    note_share(view);
    if (!keeps_promise(view, index, false, Promise::None)) return;
    if (is_summed_first(view, index, amount)) return;
    if (is_added_to(view, index) && check_fixed(view, index)) accumulate<Together>(view, index, amount, mode);
  }
  template <class T, class Index, class M>
  TSL_INLINE void tsl_add(const View& view, Index index, T amount, M mode) {
    if (!keeps_promise(view, index, false, Promise::OneThread)) return;
    if (is_own(view, index, amount, OwnAdd{}) || !is_added_to(view, index)) return;
    if constexpr (is_kept_whole<T>(M())) {
      T sum = whole<T>(view, index);
      each_number(view, Mode<kAtomic>(), reinterpret_cast<unsigned char*>(&sum), amount, Add{});
      put_whole(view, index, sum);
    } else {
      each_number(view, mode, view.address_of<unsigned char>(index), amount, Add{});
    }
  }
  template <class T, class Index, class M>
  TSL_INLINE void tsl_set(const View& view, Index index, T amount, M mode) {
    if (!keeps_promise(view, index, false, Promise::Once)) return;
    if (is_own(view, index, amount, OwnSet{}) || !is_added_to(view, index)) return;
    if constexpr (is_kept_whole<T>(M())) put_whole(view, index, amount);
    else each_number(view, mode, view.address_of<unsigned char>(index), amount, Set{});
  }
  template <class T, class Index, class M>
  TSL_INLINE T tsl_take(const View& view, Index index, M mode) {
    T taken{};
    if (!keeps_promise(view, index, true, Promise::None)) return taken;
    if (is_own(view, index, taken, OwnTake{}) || !wanted(view, index)) return taken;
    mark_take(view.id);
    return take_from<T>(args, view, mode, view.address_of<unsigned char>(index), TakeAtomically{});
  }
  template <class T, class Index, class M>
  TSL_INLINE T tsl_take_uniform(const View& view, Index index, M mode) {
    T taken{};
    if (!keeps_promise(view, index, true, Promise::OneThread)) return taken;
    if (is_own(view, index, taken, OwnTake{}) || !wanted(view, index)) return taken;
    mark_take(view.id);
    return take_from<T>(args, view, mode, view.address_of<unsigned char>(index), Take{});
  }
  // Leaves the gradient as it is: a mark only where there may be more of it than is here.
  template <class T, class Index, class M>
  TSL_INLINE T tsl_take_once(const View& view, Index index, M mode) {
    T taken{};
    if (!keeps_promise(view, index, true, Promise::Once)) return taken;
    if (is_own(view, index, taken, OwnRead{}) || !wanted(view, index)) return taken;
    if constexpr (M::value == kAtomic) return whole<T>(view, index);
    mark_take(view.id);
    return take_from<T>(args, view, mode, view.address_of<unsigned char>(index), Read{});
  }

  // Tangents of views. In a backward, where a derivative of the user's may call a forward one, views are constants.
  template <class T, class Index> TSL_INLINE T tsl_get(const View& view, Index index) const {
    return TSL_TANGENTS && wanted(view, index) ? whole<T>(view, index) : T{};
  }
  template <class T, class Index> TSL_INLINE void tsl_put(const View& view, Index index, T tangent) const {
    if (TSL_TANGENTS && wanted(view, index)) put_whole(view, index, tangent);
  }

  // Fills the places that the thread has left in the record of view k: zeros for some element, not the same for all threads, so
  // that those who add up do not all meet there.
  TSL_INLINE void tsl_finish(int k, int places) const {
    const View view = this->view(k);
    const uint bytes = uint(view.components) * (view.scalar == kFloat64 ? 8u : 4u);  // halves are summed in float
    unsigned char* values = reinterpret_cast<unsigned char*>(gradient_slot(args, view, kTslValues, 0));
    if (view.is_missing() || !values) return;
    longlong* indices = reinterpret_cast<longlong*>(gradient_slot(args, view, kTslIndices, 0));
    const ulonglong thread = thread_number(), threads = thread_count(), elements = view.element_count();
    const ulonglong element = thread < elements ? thread : elements == 0 ? 0 : thread % elements;
    for (int i = int(recorded[k]); i < places; ++i) {
      const ulonglong place = ulonglong(i) * threads + thread;
      indices[place] = longlong(element);
      uint* words = reinterpret_cast<uint*>(values + place * bytes);
      for (uint w = 0; w < bytes / 4; ++w) words[w] = 0u;
    }
  }

 private:
  TSL_INLINE void note_share(const View& view) const {
    mark_share(view.id);
#if TSL_LOCATE
    mark_share_at(view.id, this->tsl_at);
#endif
  }

  // Whether the element is the thread's own, and then f is applied to its registers.
  template <class T, class Index, class F>
  TSL_INLINE bool is_own(const View& view, Index index, T& value, F f) {
    if constexpr (Own::kHasAny) {
      if (own.has(view.id)) {
        if (!view.inside(index)) return true;  // reported, and left out
        if (own.each(view.id, *this, value, f, index)) return true;
      }
    }
    note_share(view);
    return false;
  }

  // Whether the amount was added to what the virtual threads of a GPU thread, or the elements of a loop, have together.
  template <class T, class Index> TSL_INLINE bool is_summed_first(const View& view, Index index, T amount) {
#if TSL_SHARED_SUMS || TSL_MAP_SUMS || TSL_LANES > 1
    return tsl_add_first(*this, view.id, index, amount);
#else
    return false;
#endif
  }

  // An element of a gradient that is there: without the marks that loads and stores of views leave.
  template <class T, class Index> static TSL_INLINE T whole(const View& view, Index index) {
    return read_element(view.address_of<T>(index), view.aligned, /*constant=*/false);
  }
  template <class T, class Index> static TSL_INLINE void put_whole(const View& view, Index index, T value) {
    write_element(view.address_of<T>(index), value, view.aligned);
  }

  template <class Amounts, class T, class Index, class M>
  TSL_INLINE void accumulate(const View& view, Index index, T amount, M) {
    const Amounts amounts([&] { return ulonglong(view.number_of(index)); });
    with_numbers<T>(view, [&](auto s) TSL_INLINE_LAMBDA {
      using S = decltype(s);
      constexpr int kCount = sizeof(T) / sizeof(S);
      S numbers[kCount > 0 ? kCount : 1];
      SumOf<S> sums[kCount > 0 ? kCount : 1];
      TSL_COPY(numbers, &amount, kCount * sizeof(S));
      for (int i = 0; i < kCount; ++i) sums[i] = amounts.sum(numbers[i]);
      if (!amounts.adds) return;
      if constexpr (M::value > 0) {
        if (auto* place = reinterpret_cast<SumOf<S>*>(new_record(view, index, M::value, sizeof sums))) {
          for (int i = 0; i < kCount; ++i) place[i] = sums[i];
          return;
        }
      }
      mark_add(view.id);
      unsigned char* element = view.address_of<unsigned char>(index);
      if constexpr (M::value == kReplicated) {
        const uint number = amounts.number_among_adders(thread_number());
        element = replica(args, view, element, number % replicas_of(args, view));
      }
      if constexpr (M::value == kAtomic) add_to_memory(view, reinterpret_cast<S*>(element), sums);
      else add_to_memory(view, reinterpret_cast<SumOf<S>*>(element), sums);
    });
  }
  template <class S, class Sum, int kCount>
  TSL_INLINE void add_to_memory(const View& view, S* element, const Sum (&sums)[kCount]) const {
#if TSL_HELD_SUMS && !TSL_CUDA
    if (HeldSums::are_held<S>(view, kCount)) return value_sums->held.add(element, sums);
#endif
    add_atomically(element, sums);
  }
  // The thread's next place in the view's record, its index written; null if there is none.
  template <class Index>
  TSL_INLINE unsigned char* new_record(const View& view, Index index, int places, uint bytes) {
    unsigned char* values = reinterpret_cast<unsigned char*>(gradient_slot(args, view, kTslValues, 0));
    if (!values) return nullptr;
    const uint used = recorded[view.id];
    if (used >= uint(places)) {
      atomicAdd(reinterpret_cast<ulonglong*>(gradient_slot(args, view, kTslOverflow, 0)), 1ull);
      return nullptr;
    }
    recorded[view.id] = used + 1;
    const ulonglong place = used * thread_count() + thread_number();
    reinterpret_cast<longlong*>(gradient_slot(args, view, kTslIndices, 0))[place] = view.number_of(index);
    return values + place * bytes;
  }
};

}  // namespace tsl
