// Gradients, by element: how one is added to, taken and read, in each of the modes that slang/wrapper.slang tells apart. A
// gradient view has its primal's index space and, where the sum is kept in the element's own type, its elements; where it
// is null or absent (nobody wants the gradient) nothing is done and zero is given.
//
// An element is so many scalars of one type without padding, be it a number, a vector, an array or a user's struct.
#pragma once

#include "prelude/atomics.h"
#include "prelude/components.h"
#include "prelude/views.h"
#include "prelude/wave_operators.h"  // before the #if: each file's text stands where it is included first
#if TSL_CUDA
#include "prelude/wave_primitives_cuda.h"
#else
#include "prelude/wave_primitives_host.h"
#endif

namespace tsl {

// What a primitive's argument `mode` says; above zero: recorded, with so many places a thread.
enum AccumulationMode { kAtomic = 0, kReplicated = -1 };

// A mode as a type. Where a kernel has fifty accesses, code of other modes would be inlined fifty times before it is dropped.
template <int kValue> struct Mode {
  static constexpr int value = kValue;
};
#define TSL_MODE(mode) tsl::Mode<(mode)>()

// What an access promises of its element: nothing, that one thread alone loads (or stores) it, or that this is
// done once.
enum class Promise { None, OneThread, Once };

// Sums of halves are kept in float, but where the sum is an atomic addition into the gradient itself: then each addition rounds.
template <class T> struct SumIn { using type = T; };
template <> struct SumIn<__half> { using type = float; };
template <> struct SumIn<__nv_bfloat16> { using type = float; };
template <class T> using SumOf = typename SumIn<T>::type;

// f(S()) for the type S of the numbers that T is made of. Of a struct, the view says it.
template <class T, class F>
TSL_INLINE void with_numbers(const View& view, F f) {
  using S = typename NumbersOf<T>::type;
  if constexpr (!IsSame<S, void>::value) {
    f(S());
  } else {
    if (view.scalar == kFloat32) f(float());
    if (view.scalar == kFloat64) f(double());
    if (view.scalar == kFloat16) f(__half());
    if (view.scalar == kBFloat16) f(__nv_bfloat16());
  }
}

// f(where a number is kept in an element of the gradient, the same number of `value`) for each.
template <class T, class M, class F>
TSL_INLINE void each_number(const View& view, M, unsigned char* element, T& value, F f) {
  with_numbers<T>(view, [&](auto s) TSL_INLINE_LAMBDA {
    using S = decltype(s);
    constexpr int kCount = sizeof(T) / sizeof(S);
    S numbers[kCount > 0 ? kCount : 1];
    TSL_COPY(numbers, &value, kCount * sizeof(S));
    for (int i = 0; i < kCount; ++i) {
      if constexpr (M::value == kAtomic) f(reinterpret_cast<S*>(element) + i, numbers[i]);
      else f(reinterpret_cast<SumOf<S>*>(element) + i, numbers[i]);
    }
    TSL_COPY(&value, numbers, kCount * sizeof(S));
  });
}

struct Add {
  template <class M, class S> TSL_INLINE void operator()(M* kept, S& number) const { *kept = M(*kept + M(number)); }
};
struct Set {
  template <class M, class S> TSL_INLINE void operator()(M* kept, S& number) const { *kept = M(number); }
};
// These three add the value that they find to `number`, since replicas are taken one after the other.
struct TakeAtomically {
  template <class M, class S> TSL_INLINE void operator()(M* kept, S& number) const {
    number = S(M(number) + atomicExch(kept, M(0)));
  }
};
struct Take {
  template <class M, class S> TSL_INLINE void operator()(M* kept, S& number) const {
    number = S(M(number) + *kept);
    *kept = M(0);
  }
};
struct Read {
  template <class M, class S> TSL_INLINE void operator()(M* kept, S& number) const { number = S(M(number) + *kept); }
};

// Whether an element of the gradient is a T in memory, and may be moved whole.
template <class T, class M> TSL_INLINE constexpr bool is_kept_whole(M) {
  using S = typename NumbersOf<T>::type;
  return M::value == kAtomic || (!IsSame<S, void>::value && IsSame<S, SumOf<S>>::value);
}

// What a gradient's slots say (Note [gradient slots] in abi.h).
TSL_INLINE ulonglong gradient_slot(const TslArgs& args, const View& view, int which, ulonglong otherwise) {
  return view.gradient_slot == 0 ? otherwise : args.slots[view.gradient_slot - 1 + which];
}

TSL_INLINE uint replicas_of(const TslArgs& args, const View& view) {
  return uint(gradient_slot(args, view, kTslReplicas, 1));
}

TSL_INLINE unsigned char* replica(const TslArgs& args, const View& view, unsigned char* element, uint number) {
  return element + static_cast<long long>(number) * static_cast<long long>(gradient_slot(args, view, kTslReplicaStride, 0));
}

// Of all replicas together.
template <class T, class M, class F>
TSL_INLINE T take_from(const TslArgs& args, const View& view, M mode, unsigned char* element, F take) {
  T taken{};
  if constexpr (M::value == kReplicated) {
    const uint replicas = replicas_of(args, view);
    for (uint r = 0; r < replicas; ++r) each_number(view, mode, replica(args, view, element, r), taken, take);
  } else {
    each_number(view, mode, element, taken, take);
  }
  return taken;
}

template <class Index> TSL_INLINE bool wanted(const View& gradient, Index index) {
  return !gradient.is_missing() && gradient.inside(index);
}
// For additions that wait: whether there is a gradient is seen when they are made. An addition to a gradient that has slots but is
// absent shows the run-time that it must be there.
template <class Index> TSL_INLINE bool may_be_added_to(const View& gradient, Index index) {
  if (gradient.absent && gradient.gradient_slot > 0) mark_add(gradient.id);
  return !gradient.absent && gradient.inside(index);
}
template <class Index> TSL_INLINE bool is_added_to(const View& gradient, Index index) {
  return may_be_added_to(gradient, index) && !gradient.is_missing();
}
// What lies so many bytes from the view's first element; null if nobody wants the gradient.
template <class M> TSL_INLINE M* element_at(const View& gradient, ulonglong offset) {
  return gradient.data == nullptr ? nullptr : reinterpret_cast<M*>(gradient.data + offset);
}

// What one thread adds to a number's gradient: its own amount, or what those lanes of its wave that are here have together,
// which one of them then adds.
struct Alone {
  bool adds = true;
  template <class Number> TSL_INLINE explicit Alone(Number) {}
  TSL_INLINE uint number_among_adders(ulonglong thread) const { return uint(thread); }
  template <class S> TSL_INLINE SumOf<S> sum(S amount) const { return SumOf<S>(amount); }
};
#if TSL_CUDA
struct Together {
  WarpMask lanes;
  bool adds;
  // element(): its number in the view. A wave of the launch has one, but threads that run lanes of vectors (Note [vector accesses]) stand
  // for several waves.
  template <class Number> TSL_INLINE explicit Together(Number element)
      : lanes(TSL_LANES > 1 ? __match_any_sync(__activemask(), element()) : __activemask()),
        adds(_getLaneId() == uint(__ffs(int(lanes)) - 1)) {}
  TSL_INLINE uint number_among_adders(ulonglong thread) const { return uint(thread / warpSize); }
  template <class S> TSL_INLINE SumOf<S> sum(S amount) const { return reduce<WaveAdd>(lanes, SumOf<S>(amount)); }
};
#else
using Together = Alone;
#endif

}  // namespace tsl
