// Gradients of a thread's own elements, in registers.
//
// Note [own elements]
//   Where dimensions of a view are those of the launch (a view [N, 8, F] and threads "F, N"), the thread with the
//   coordinates (x, y) has the elements [y, *, x] to itself: no other has those coordinates. If a kernel's threads touch
//   nothing but their own elements of a gradient, it needs no atomics: what a thread adds stays in registers, a store to
//   an output takes the gradient there and leaves zero, and once the thread is through, all of its elements are stored,
//   plainly and once each. Memory need not be cleared, and sums are the same in every run.
//
//   The compiler finds out whether that is so. Each access compares its index with the thread's coordinates; where the
//   two are one expression the comparison folds, and where it does not, the branch for other elements leaves the mark
//   `shares <view>`, upon which the run-time compiles the kernel again without registers for that view. So every way to
//   reach a gradient must either go through here or leave that mark.
//
//   A gradient that is given (an output's) is read when the thread begins and never written. Elements that are beyond the
//   launch's coordinates, which surplus threads of the last blocks have, are neither read nor written.
#pragma once

#include "prelude/gradients.h"

namespace tsl {

// A dimension whose index is the thread's coordinate in the launch, and one of which the thread has all elements.
template <int kAxis> struct LaunchDim {
  static constexpr uint kSize = 1;
  static constexpr bool kIsX = kAxis == 0;
  // `shift`: of the thread that stands so far along x.
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint shift, uint index) {
    return index == thread.template coordinate<kAxis>() + (kIsX ? shift : 0u);
  }
  template <class Thread> static TSL_INLINE bool inside(const Thread& thread, uint size) {
    return thread.template coordinate<kAxis>() < size;
  }
  template <class Thread> static TSL_INLINE uint index(const Thread& thread, uint) {
    return thread.template coordinate<kAxis>();
  }
  static TSL_INLINE uint number(uint) { return 0; }
};
template <uint kCount> struct FreeDim {
  static constexpr uint kSize = kCount;
  static constexpr bool kIsX = false;
  template <class Thread> static TSL_INLINE bool holds(const Thread&, uint, uint index) { return index < kCount; }
  template <class Thread> static TSL_INLINE bool inside(const Thread&, uint) { return true; }
  template <class Thread> static TSL_INLINE uint index(const Thread&, uint number) { return number; }
  static TSL_INLINE uint number(uint index) { return index; }
};

// A dimension whose index is a number that the loop of a plain function made of the element's: Note [own places] in
// specialise/own_places.h.
template <int kPlace> struct PlaceDim {
  static constexpr uint kSize = 1;
  static constexpr bool kIsX = false;
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint, uint index) {
    return index == thread.places[kPlace];
  }
  template <class Thread> static TSL_INLINE bool inside(const Thread& thread, uint size) {
    return thread.places[kPlace] < size;
  }
  template <class Thread> static TSL_INLINE uint index(const Thread& thread, uint) { return thread.places[kPlace]; }
  static TSL_INLINE uint number(uint) { return 0; }
};

// The dimensions of a view, outermost first. `number`: of one of the thread's own elements, row-major in the free dimensions.
// kRun: how many of them lie inside the dimension that is along x.
template <class... Dims> struct OwnDims;
template <> struct OwnDims<> {
  static constexpr uint kSize = 1;
  static constexpr uint kRun = 1;
  static constexpr bool kHasX = false;
  static constexpr int kRank = 0;
  template <class Thread> static TSL_INLINE bool holds(const Thread&, uint) { return true; }
  static TSL_INLINE uint number() { return 0; }
  template <int kDimension, class Thread> static TSL_INLINE bool inside(const View&, const Thread&) { return true; }
  template <int kDimension, class Thread> static TSL_INLINE longlong offset(const View&, const Thread&, uint) { return 0; }
};
template <class Dim, class... Rest> struct OwnDims<Dim, Rest...> {
  using Inner = OwnDims<Rest...>;
  static constexpr uint kSize = Dim::kSize * Inner::kSize;
  static constexpr uint kRun = Dim::kIsX ? Inner::kSize : Inner::kRun;
  static constexpr bool kHasX = Dim::kIsX || Inner::kHasX;
  static constexpr int kRank = 1 + Inner::kRank;

  template <class Thread, class... Index>
  static TSL_INLINE bool holds(const Thread& thread, uint shift, uint first, Index... rest) {
    return Dim::holds(thread, shift, first) && Inner::holds(thread, shift, rest...);
  }
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint shift, uint1 at) {
    return holds(thread, shift, at.x);
  }
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint shift, uint2 at) {
    return holds(thread, shift, at.x, at.y);
  }
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint shift, uint3 at) {
    return holds(thread, shift, at.x, at.y, at.z);
  }
  template <class Thread> static TSL_INLINE bool holds(const Thread& thread, uint shift, uint4 at) {
    return holds(thread, shift, at.x, at.y, at.z, at.w);
  }
  template <class... Index> static TSL_INLINE uint number(uint first, Index... rest) {
    return Dim::number(first) * Inner::kSize + Inner::number(rest...);
  }
  template <int kDimension, class Thread> static TSL_INLINE bool inside(const View& view, const Thread& thread) {
    return Dim::inside(thread, view.sizes[kDimension]) && Inner::template inside<kDimension + 1>(view, thread);
  }
  template <int kDimension, class Thread>
  static TSL_INLINE longlong offset(const View& view, const Thread& thread, uint number) {
    return view.strides[kDimension] * Dim::index(thread, number / Inner::kSize) +
           Inner::template offset<kDimension + 1>(view, thread, number % Inner::kSize);
  }
};

// kComponents numbers of type S make an element.
template <int kView, class S, int kComponents, class Dims, bool kGiven>
class OwnGradient {
  using Sum = SumOf<S>;
  static constexpr uint kElements = Dims::kSize, kNumbers = kElements * kComponents;
  // New memory is aligned to more than an element, so elements are where multiples of their size are.
  static constexpr uint kBytes = kComponents * sizeof(S);
  static constexpr uint kAlignment = (kBytes & -kBytes) < 16 ? (kBytes & -kBytes) : 16;
  struct alignas(kAlignment) Element { S numbers[kComponents]; };

 public:
  template <class Thread> TSL_INLINE void begin(const Thread& thread) {
    if (!kGiven) return;
    const View view = thread.view(kView);
    if (Dims::template inside<0>(view, thread)) read_from<0>(view, thread);
  }
  template <class Thread> TSL_INLINE void end(const Thread& thread) const {
    if (kGiven) return;
    const View view = thread.view(kView);
    if (view.data != nullptr && Dims::template inside<0>(view, thread)) write_from<0>(view, thread);
  }

  // The same where vectors are in the thread's stead, if it has some (Note [vector accesses] in vector_access.h).
  template <class Thread, class Vectors, class Piece> TSL_INLINE void begin(const Thread& thread, Piece Vectors::*piece) {
    if (thread.vectors == nullptr) begin(thread);
    else if (kGiven) take_from<0>(thread.vectors->*piece, thread.lane);
  }
  template <class Thread, class Vectors, class Piece> TSL_INLINE void end(const Thread& thread, Piece Vectors::*piece) const {
    if (thread.vectors == nullptr) end(thread);
    else if (!kGiven) leave_in<0>(thread.vectors->*piece, thread.lane);
  }

  TSL_INLINE Sum number(uint n) const { return sums_[n]; }

  // f(a sum, the number of `value` that belongs to it) for each number of the element, if it is the thread's own.
  template <class Thread, class T, class F, class... Index>
  TSL_INLINE bool each(const Thread& thread, T& value, F f, Index... index) {
    if constexpr (sizeof(T) != kBytes || sizeof...(Index) != Dims::kRank) {
      return false;
    } else {
      if (!Dims::holds(thread, 0u, index...)) return false;
      S numbers[kComponents];
      TSL_COPY(numbers, &value, kBytes);
      apply<0>(Dims::number(index...), numbers, f);
      TSL_COPY(&value, numbers, kBytes);
      return true;
    }
  }
  template <class Thread, class T, class F> TSL_INLINE bool each(const Thread& thread, T& value, F f, uint1 at) {
    return each(thread, value, f, at.x);
  }
  template <class Thread, class T, class F> TSL_INLINE bool each(const Thread& thread, T& value, F f, uint2 at) {
    return each(thread, value, f, at.x, at.y);
  }
  template <class Thread, class T, class F> TSL_INLINE bool each(const Thread& thread, T& value, F f, uint3 at) {
    return each(thread, value, f, at.x, at.y, at.z);
  }
  template <class Thread, class T, class F> TSL_INLINE bool each(const Thread& thread, T& value, F f, uint4 at) {
    return each(thread, value, f, at.x, at.y, at.z, at.w);
  }

 private:
  // f of the sums of one element. An index that is only seen to be constant after much else has been would keep registers in
  // memory until then, so on GPUs each is compared with; vectorised loops on hosts are better off with the index.
  template <uint kFrom, class F> TSL_INLINE void apply(uint element, S* numbers, F f) {
    if constexpr (TSL_CUDA && kFrom + 1 < kElements) {
      if (element != kFrom) return apply<kFrom + 1>(element, numbers, f);
      element = kFrom;
    } else if constexpr (TSL_CUDA) {
      element = kFrom;
    }
    apply_from<0>(&sums_[element * kComponents], numbers, f);
  }
  template <int kFrom, class F> static TSL_INLINE void apply_from(Sum* sums, S* numbers, F f) {
    if constexpr (kFrom < kComponents) {
      f(sums[kFrom], numbers[kFrom]);
      apply_from<kFrom + 1>(sums, numbers, f);
    }
  }

  // From number or element kFrom on. No loops here, since their indices would be no constants until compilers unroll them.
  template <uint kFrom, class Thread> TSL_INLINE void read_from(const View& view, const Thread& thread) {
    if constexpr (kFrom < kNumbers) {
      const longlong offset = Dims::template offset<0>(view, thread, kFrom / kComponents);
      sums_[kFrom] = Sum(read_whole(reinterpret_cast<const S*>(view.data + offset) + kFrom % kComponents, TSL_INDEPENDENT));
      read_from<kFrom + 1>(view, thread);
    }
  }
  template <uint kFrom, class Thread> TSL_INLINE void write_from(const View& view, const Thread& thread) const {
    if constexpr (kFrom < kElements) {
      Element element;
      fill_from<0>(element, &sums_[kFrom * kComponents]);
      *reinterpret_cast<Element*>(view.data + Dims::template offset<0>(view, thread, kFrom)) = element;
      write_from<kFrom + 1>(view, thread);
    }
  }
  template <int kFrom> static TSL_INLINE void fill_from(Element& element, const Sum* sums) {
    if constexpr (kFrom < kComponents) {
      element.numbers[kFrom] = S(sums[kFrom]);
      fill_from<kFrom + 1>(element, sums);
    }
  }
  template <uint kFrom, class Piece> TSL_INLINE void take_from(const Piece& piece, uint lane) {
    if constexpr (kFrom < kNumbers) {
      sums_[kFrom] = Sum(piece.number(lane, kFrom));
      take_from<kFrom + 1>(piece, lane);
    }
  }
  template <uint kFrom, class Piece> TSL_INLINE void leave_in(Piece& piece, uint lane) const {
    if constexpr (kFrom < kNumbers) {
      piece.number(lane, kFrom) = S(sums_[kFrom]);
      leave_in<kFrom + 1>(piece, lane);
    }
  }

  Sum sums_[kNumbers] = {};
};

struct OwnAdd {
  template <class M, class S> TSL_INLINE void operator()(M& sum, S& number) const { sum += M(number); }
};
struct OwnSet {
  template <class M, class S> TSL_INLINE void operator()(M& sum, S& number) const { sum = M(number); }
};
struct OwnTake {
  template <class M, class S> TSL_INLINE void operator()(M& sum, S& number) const {
    number = S(sum);
    sum = M(0);
  }
};
struct OwnRead {
  template <class M, class S> TSL_INLINE void operator()(M& sum, S& number) const { number = S(sum); }
};

// f(indices), of an index that may be a vector.
template <class F, class... Index> TSL_INLINE bool with_index(F f, Index... index) { return f(uint(index)...); }
template <class F> TSL_INLINE bool with_index(F f, uint1 at) { return f(at.x); }
template <class F> TSL_INLINE bool with_index(F f, uint2 at) { return f(at.x, at.y); }
template <class F> TSL_INLINE bool with_index(F f, uint3 at) { return f(at.x, at.y, at.z); }
template <class F> TSL_INLINE bool with_index(F f, uint4 at) { return f(at.x, at.y, at.z, at.w); }

// Of a kernel without any.
struct NothingOwn {
  static constexpr bool kHasAny = false;
  template <class Thread> TSL_INLINE void begin(const Thread&) {}
  template <class Thread> TSL_INLINE void end(const Thread&) const {}
  static TSL_INLINE bool has(int) { return false; }
  template <class Thread, class T, class F, class Index> TSL_INLINE bool each(int, const Thread&, T&, F, Index) { return false; }
};

}  // namespace tsl
