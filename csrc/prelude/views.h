// tsl::View: a tensor, made from one TslView of the argument block, with addresses of 64 bits. A plain value whose fields are
// mostly constants once everything is inlined; nothing of it survives in compiled code but the address arithmetic.
//
// TensorView: what emitted text sees of a tensor, copies into each context of a derivative, and clears there. Host compilers do
// clear it, some 30 KB a thread in a second derivative: so there it is the number of a View, which each access makes. On a GPU
// nothing is left of contexts, and it is a View (NVRTC makes up to three times as much code of numbers).
//
// Note [views]
//   absent:   there is no tensor (an unwanted gradient, an output in a backward). Loads give zero and leave the mark
//             `reads <id>`; stores do nothing.
//   readonly: stores and atomic operations are done and leave the mark `writes <id>`, upon which the run-time refuses the kernel. So where no two
//             views overlap (TSL_INDEPENDENT), loads may go through the read-only cache and move across stores.
//   gradient: a backward gathers a gradient here, `gradient_slot` is the first of its slots (Note [gradient slots] in
//             abi.h). At run time it may turn out to be unwanted: then it is null, and the same holds as for absent views.
//             Code of the user's own may take its elements for others, of another type or of fewer components, which leaves
//             the mark `retypes <id>`, upon which the run-time refuses the kernel.
//   aligned:  each element lies at a multiple of its size, so vector elements may be moved whole; otherwise by component
//             (a tensor of float4 may begin at any float).
#pragma once

#include "prelude/atomic_place.h"
#include "prelude/components.h"
#include "prelude/mark.h"

namespace tsl {
struct View;
// The types of numbers, in the order of ElementType in program.h.
enum Scalar {
  kUnknown,  // zero, as in the zeroed views that emitted text makes: tests of the type then fold to constants
  kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUInt8, kUInt16, kUInt32, kUInt64, kBool
};

template <class S> constexpr Scalar kScalarOf = kUnknown;
template <> constexpr Scalar kScalarOf<__half> = kFloat16;
template <> constexpr Scalar kScalarOf<__nv_bfloat16> = kBFloat16;
template <> constexpr Scalar kScalarOf<float> = kFloat32;
template <> constexpr Scalar kScalarOf<double> = kFloat64;
template <class S> constexpr bool kIsFloat = kScalarOf<S> >= kFloat16 && kScalarOf<S> <= kFloat64;

struct ThreadBase;
#if TSL_CHECKS
TSL_INLINE bool check_dimension(const View& view, uint dimension);
template <class... Index> TSL_INLINE bool check_index(const View& view, Index... index);
TSL_INLINE bool check_index(const View& view, uint1 at);
TSL_INLINE bool check_index(const View& view, uint2 at);
TSL_INLINE bool check_index(const View& view, uint3 at);
TSL_INLINE bool check_index(const View& view, uint4 at);
#endif
template <class T> TSL_INLINE T* spare_place(int view);
}  // namespace tsl

#if TSL_LANES > 1
struct TslVectors;  // generated for each kernel, as are these two: Note [vector accesses] in vector_access.h
namespace tsl {
// By value, not a pointer to the thread: compilers keep the target of a pointer in memory until late, and prove less until then.
struct VectorLane {
  TslVectors* vectors;  // of the group of lanes; null: the thread is on its own
  uint number;
  uint3 at;  // the thread's coordinates in the launch
  template <int kAxis> TSL_INLINE uint coordinate() const { return kAxis == 0 ? at.x : kAxis == 1 ? at.y : at.z; }
};
}  // namespace tsl
template <class T, class... Index> TSL_INLINE bool tsl_load_vector(int view, tsl::VectorLane lane, T& value, Index... index);
template <class T, class... Index> TSL_INLINE bool tsl_store_vector(int view, tsl::VectorLane lane, T value, Index... index);
#endif

namespace tsl {

struct View {
  unsigned char* data;
  long long strides[kTslMaxDims];  // bytes
  uint sizes[kTslMaxDims];
  uint dimensionCount;
  int id;
  tsl::Scalar scalar;  // that elements are made of,
  int components;      // so many of them
  int gradient_slot;   // the first one's number plus one; 0: no gradient
  bool absent, readonly, aligned;
#if TSL_CHECKS
  const tsl::ThreadBase* kernel;  // the thread that looks through this view
#endif
#if TSL_LANES > 1
  tsl::VectorLane lane;  // that this thread is
#endif

  TSL_INLINE uint size(uint dimension) const { return size_of(dimension); }
  TSL_INLINE uint size_of(uint dimension) const { return has_dimension(dimension) ? sizes[dimension] : 0u; }
  TSL_INLINE long long stride_of(uint dimension) const { return has_dimension(dimension) ? strides[dimension] : 0; }

  template <class... Index> TSL_INLINE long long offset(Index... index) const { return offset_from<0>(index...); }

  // Whether there is such a dimension: if not, it is reported in debug mode.
  TSL_INLINE bool has_dimension(uint dimension) const {
#if TSL_CHECKS
    return tsl::check_dimension(*this, dimension);
#else
    return true;
#endif
  }
  // Whether there is such an element: if not, it is reported. Unchecked, that is the kernel's affair.
  template <class... Index> TSL_INLINE bool inside(Index... index) const {
#if TSL_CHECKS
    return tsl::check_index(*this, index...);
#else
    return true;
#endif
  }
  template <class T, class... Index> TSL_INLINE T* address_of(Index... index) const {
    return reinterpret_cast<T*>(data + offset(index...));
  }

  TSL_INLINE bool is_missing() const { return absent || (gradient_slot > 0 && data == nullptr); }

  TSL_INLINE ulonglong element_count() const {
    ulonglong count = 1;
    for (uint d = 0; d < kTslMaxDims; ++d) count *= d < dimensionCount ? sizes[d] : 1u;
    return count;
  }
  // An element's number in row-major order.
  template <class... Index> TSL_INLINE longlong number_of(Index... index) const { return number_from<0>(index...); }

  template <class T> TSL_INLINE T* data_ptr() const {
    if (gradient_slot > 0) tsl::mark_add(id);
    note_reach();
    return reinterpret_cast<T*>(data);
  }
  template <class T, class... Index> TSL_INLINE tsl::AtomicPlace<T> data_ptr_at(Index... index) const {
    note_type<T>();
    if (readonly) tsl::mark_write(id);
    if (gradient_slot > 0) tsl::mark_add(id);  // the user's own derivative does what it likes
    note_reach();
    const bool is_spare = is_missing() || !inside(index...);
    return {is_spare ? tsl::spare_place<T>(id) : address_of<T>(index...), absent ? id : -1, id,
            ulonglong(offset(index...)), is_spare};
  }
  template <class T, class... Index> TSL_INLINE T load(Index... index) const;
  // Whether each element with an even last index, whatever the others, is one vector with its neighbour.
  TSL_INLINE bool has_pairs(int element_bytes) const;
  // Addresses in steps of their own, for callers that have checked their indices.
  template <class Index> TSL_INLINE ulonglong number_of_byte(Index index) const {
    return reinterpret_cast<ulonglong>(data) + ulonglong(offset(index));
  }
  template <class Pair> TSL_INLINE void load_pair(ulonglong address, Pair* pair) const;
  template <class T, class... IndexAndValue> TSL_INLINE void store(IndexAndValue... arguments) const {
    store_last<T>(arguments...);
  }

 private:
  // A gradient's memory is accessed by other means than tsl_accumulate and its kin: it must hold the gradient.
  TSL_INLINE void note_reach() const {
    if (gradient_slot == 0) return;
    tsl::mark_share(id);
    tsl::mark_take(id);
  }
  template <class T> TSL_INLINE void note_type() const {
    using S = typename tsl::NumbersOf<T>::type;
    constexpr tsl::Scalar kTaken = tsl::kScalarOf<S>;
    if constexpr (kTaken != tsl::kUnknown) {
      constexpr int kCount = sizeof(T) / sizeof(S);
      // Where all gradients hold the taken values there is nothing to see, even where the view is only known at run time.
      constexpr bool kPossible =
          (TSL_GRADIENT_SCALARS & ~(1u << (unsigned(kTaken) - 1))) != 0 || kCount != TSL_GRADIENT_COMPONENTS;
      const bool is_other = scalar != kTaken || components != kCount;
      if (kPossible && scalar != tsl::kUnknown && gradient_slot > 0 && is_other) tsl::mark_retype(id);
    }
  }

#define TSL_EACH_INDEX(R, name)                                                                                          \
  template <int kDimension, class... Index> TSL_INLINE R name(uint first, Index... rest) const;                          \
  template <int kDimension> TSL_INLINE R name(uint1 index) const { return name<0>(index.x); }                            \
  template <int kDimension> TSL_INLINE R name(uint2 index) const { return name<0>(index.x, index.y); }                   \
  template <int kDimension> TSL_INLINE R name(uint3 index) const { return name<0>(index.x, index.y, index.z); }          \
  template <int kDimension> TSL_INLINE R name(uint4 index) const { return name<0>(index.x, index.y, index.z, index.w); }
  TSL_EACH_INDEX(long long, offset_from)
  TSL_EACH_INDEX(longlong, number_from)
#undef TSL_EACH_INDEX
  template <class T, class A> TSL_INLINE void store_last(A i, T value) const { put<T>(value, i); }
  template <class T> TSL_INLINE void store_last(uint i, uint j, T value) const { put<T>(value, i, j); }
  template <class T> TSL_INLINE void store_last(uint i, uint j, uint k, T value) const { put<T>(value, i, j, k); }
  template <class T> TSL_INLINE void store_last(uint i, uint j, uint k, uint l, T value) const { put<T>(value, i, j, k, l); }
  template <class T> TSL_INLINE void store_last(uint i, uint j, uint k, uint l, uint m, T value) const {
    put<T>(value, i, j, k, l, m);
  }
  template <class T, class... Index> TSL_INLINE void put(T value, Index... index) const;
};

// Where atomic operations go that have no element of the view to go to. Nobody adds to one view what another gives away.
template <class T> TSL_INLINE T* spare_place(int view) {
#if TSL_CUDA
  __device__ static T places[TSL_VIEW_COUNT];
#else
  static thread_local T places[TSL_VIEW_COUNT];
#endif
  return places + view;
}

// An element moved whole, or by component where its address may not be a multiple of its size.
template <class T> TSL_INLINE T read_element(const T* p, bool aligned, bool constant);
template <class T> TSL_INLINE void write_element(T* p, T value, bool aligned);

// The size of the widest access of which so many bytes are a multiple.
constexpr int access_bytes(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

#if TSL_CUDA
// Loads through the read-only cache. Not __ldg: NVRTC's is volatile assembly, which is never dropped, merged or moved.
TSL_INLINE uint4 load_constant(const uint4* p) {
  uint4 v;
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
#define TSL_LOAD_CONSTANT(Access, width, constraint)                                  \
  TSL_INLINE Access load_constant(const Access* p) {                                    \
    Access v;                                                                         \
    asm("ld.global.nc.b" #width " %0, [%1];" : constraint(v) : "l"(p));             \
    return v;                                                                       \
  }
TSL_LOAD_CONSTANT(ulonglong, 64, "=l")
TSL_LOAD_CONSTANT(uint, 32, "=r")
TSL_LOAD_CONSTANT(ushort, 16, "=h")
#undef TSL_LOAD_CONSTANT

template <class T> TSL_INLINE T read_whole(const T* p, bool constant) {
  if (!constant) return *p;
  if constexpr (sizeof(T) == 16) return slang_bit_cast<T>(load_constant(reinterpret_cast<const uint4*>(p)));
  else if constexpr (sizeof(T) == 8) return slang_bit_cast<T>(load_constant(reinterpret_cast<const ulonglong*>(p)));
  else if constexpr (sizeof(T) == 4) return slang_bit_cast<T>(load_constant(reinterpret_cast<const uint*>(p)));
  else if constexpr (sizeof(T) == 2) return slang_bit_cast<T>(load_constant(reinterpret_cast<const ushort*>(p)));
  else return *p;
}
#else
template <class T> TSL_INLINE T read_whole(const T* p, bool) { return *p; }
#endif

template <class T> TSL_INLINE T read_element(const T* p, bool aligned, bool constant) {
  if constexpr (kIsVector<T>) {
    if (!aligned || Traits<T>::size == 3) {
      const auto* from = reinterpret_cast<const ElementOf<T>*>(p);
      T value{};
      value.x = read_whole(from, constant);
      if constexpr (Traits<T>::size >= 2) value.y = read_whole(from + 1, constant);
      if constexpr (Traits<T>::size >= 3) value.z = read_whole(from + 2, constant);
      if constexpr (Traits<T>::size >= 4) value.w = read_whole(from + 3, constant);
      return value;
    }
  }
  return read_whole(p, constant);
}

template <class T, int R, int C>
TSL_INLINE Matrix<T, R, C> read_element(const Matrix<T, R, C>* p, bool aligned, bool constant) {
  Matrix<T, R, C> value;
  for (int r = 0; r < R; ++r) value.rows[r] = read_element(&p->rows[r], aligned, constant);
  return value;
}

template <class T> TSL_INLINE void write_element(T* p, T value, bool aligned) {
  if constexpr (kIsVector<T>) {
    if (!aligned || Traits<T>::size == 3) {
      auto* to = reinterpret_cast<ElementOf<T>*>(p);
      to[0] = value.x;
      if constexpr (Traits<T>::size >= 2) to[1] = value.y;
      if constexpr (Traits<T>::size >= 3) to[2] = value.z;
      if constexpr (Traits<T>::size >= 4) to[3] = value.w;
      return;
    }
  }
  *p = value;
}

template <class T, int R, int C>
TSL_INLINE void write_element(Matrix<T, R, C>* p, Matrix<T, R, C> value, bool aligned) {
  for (int r = 0; r < R; ++r) write_element(&p->rows[r], value.rows[r], aligned);
}

template <int kDimension, class... Index>
TSL_INLINE long long View::offset_from(uint first, Index... rest) const {
  static_assert(kDimension < kTslMaxDims, "View: too many indices");
  if constexpr (sizeof...(rest) == 0) return strides[kDimension] * first;
  else return strides[kDimension] * first + offset_from<kDimension + 1>(rest...);
}

template <int kDimension, class... Index>
TSL_INLINE longlong View::number_from(uint first, Index... rest) const {
  ulonglong inner = 1;
  for (uint d = kDimension + 1; d < kTslMaxDims; ++d) inner *= d < dimensionCount ? sizes[d] : 1u;
  if constexpr (sizeof...(rest) == 0) return longlong(first * inner);
  else return longlong(first * inner) + number_from<kDimension + 1>(rest...);
}

template <class T, class... Index>
TSL_INLINE T View::load(Index... index) const {
  if (is_missing()) return absent ? tsl::marked_absent_value<T>(id) : T{};
  note_type<T>();
  note_reach();
  if (!inside(index...)) return T{};
#if TSL_LANES > 1
  T value;
  if (lane.vectors != nullptr && tsl_load_vector(id, lane, value, index...)) return value;
#endif
  return tsl::read_element(address_of<T>(index...), aligned, readonly && TSL_INDEPENDENT);
}

TSL_INLINE bool View::has_pairs(int element_bytes) const {
  ulonglong all = reinterpret_cast<ulonglong>(data);
  longlong last = 0;
  for (uint d = 0; d < kTslMaxDims; ++d) {
    if (d + 1 < dimensionCount) all |= ulonglong(strides[d]);
    if (d + 1 == dimensionCount) last = strides[d];
  }
  return last == element_bytes && (all & uint(2 * element_bytes - 1)) == 0;
}
template <class Pair> TSL_INLINE void View::load_pair(ulonglong address, Pair* pair) const {
  *pair = tsl::read_whole(reinterpret_cast<const Pair*>(address), readonly && TSL_INDEPENDENT);
}

template <class T, class... Index>
TSL_INLINE void View::put(T value, Index... index) const {
  note_type<T>();
  note_reach();
  if (is_missing() || !inside(index...)) return;
  if (readonly) tsl::mark_write(id);
#if TSL_LANES > 1
  if (lane.vectors != nullptr && tsl_store_vector(id, lane, value, index...)) return;
#endif
  tsl::write_element(address_of<T>(index...), value, aligned);
}

// View k exactly as the argument block describes it.
TSL_INLINE View present_view(const TslArgs& args, int k) {
  const TslView& from = args.views[k];
  View view{};
  view.data = from.data;
  for (int d = 0; d < kTslMaxDims; ++d) {
    view.strides[d] = from.strides[d];
    view.sizes[d] = from.sizes[d];
  }
  view.dimensionCount = from.dimensionCount;
  view.id = k;
  return view;
}

// By recursion rather than in a loop, so that all is constants from the start. Gives the elements of dimensions kDimension on.
template <int kElementBytes, int kDimension> TSL_INLINE long long fill_dense(View&) { return 1; }
template <int kElementBytes, int kDimension, class... Sizes>
TSL_INLINE long long fill_dense(View& view, uint size, Sizes... sizes) {
  const long long inner = fill_dense<kElementBytes, kDimension + 1>(view, sizes...);
  view.sizes[kDimension] = size;
  view.strides[kDimension] = inner * kElementBytes;
  return inner * size;
}

// View k, known to be contiguous and to have these sizes: strides follow from them, the last one a constant.
template <int kElementBytes, class... Sizes>
TSL_INLINE View dense_view(const TslArgs& args, int k, Sizes... sizes) {
  static_assert(sizeof...(sizes) <= kTslMaxDims, "dense_view: too many dimensions");
  View view{};
  view.data = args.views[k].data;
  fill_dense<kElementBytes, 0>(view, uint(sizes)...);
  view.dimensionCount = sizeof...(sizes);
  view.id = k;
  return view;
}

// View k, known to have these sizes; strides as the argument block has them.
template <class... Sizes>
TSL_INLINE View strided_view(const TslArgs& args, int k, Sizes... sizes) {
  static_assert(sizeof...(sizes) <= kTslMaxDims, "strided_view: too many dimensions");
  View view{};
  view.data = args.views[k].data;
  fill_dense<1, 0>(view, uint(sizes)...);
  for (int d = 0; d < int(sizeof...(sizes)); ++d) view.strides[d] = args.views[k].strides[d];
  view.dimensionCount = sizeof...(sizes);
  view.id = k;
  return view;
}

// The same view with a property of Note [views].
TSL_INLINE View absent(View view) {
  view.data = nullptr;
  view.absent = true;
  return view;
}
TSL_INLINE View readonly(View view) {
  view.readonly = true;
  return view;
}
// Leaves `uses <id>` if the view is used (Note [marks]). Where the launcher marks all views at once, nothing more to do.
TSL_INLINE View noted(View view) {
#if TSL_CUDA || TSL_BARRIERS || TSL_WAVES
  view.data = mark_use(view.id, view.data);
#endif
  return view;
}
// The same view with what its elements are made of.
TSL_INLINE View of_scalars(View view, Scalar scalar, int components = 1) {
  view.scalar = scalar;
  view.components = components;
  return view;
}
TSL_INLINE View gradient(View view, int first_slot) {
  view.gradient_slot = first_slot + 1;
  return view;
}
TSL_INLINE View aligned(View view) {
  view.aligned = true;
  return view;
}

}  // namespace tsl

TSL_INLINE tsl::View tsl_make_view(const TslArgs& args, int k);  // generated for each kernel
#if TSL_CUDA
struct TensorView : tsl::View {
  TSL_INLINE TensorView() {}  // of a cleared context: left unset, as in Note [unset contexts] in compiler/emit/unset_contexts.h
  TSL_INLINE TensorView(const tsl::View& view) : tsl::View(view) {}
};
#else
struct TensorView {
  const TslArgs* args;
  int id;
  uint dimensionCount;  // a field, since emitted text names it
#if TSL_CHECKS
  const tsl::ThreadBase* kernel;  // the thread that looks through this view
#endif
  TSL_INLINE tsl::View whole() const {
    tsl::View view = tsl_make_view(*args, id);
#if TSL_CHECKS
    view.kernel = kernel;
#endif
    return view;
  }
  TSL_INLINE operator tsl::View() const { return whole(); }
  // What emitted text and slang/*.slang name.
  TSL_INLINE uint size_of(uint dimension) const { return whole().size_of(dimension); }
  TSL_INLINE long long stride_of(uint dimension) const { return whole().stride_of(dimension); }
  template <class T> TSL_INLINE T* data_ptr() const { return whole().data_ptr<T>(); }
  template <class T, class... Index> TSL_INLINE tsl::AtomicPlace<T> data_ptr_at(Index... index) const {
    return whole().data_ptr_at<T>(index...);
  }
  template <class T, class... Index> TSL_INLINE T load(Index... index) const { return whole().load<T>(index...); }
  template <class T, class... IndexAndValue> TSL_INLINE void store(IndexAndValue... arguments) const {
    whole().store<T>(arguments...);
  }
  TSL_INLINE bool has_pairs(int element_bytes) const { return whole().has_pairs(element_bytes); }
  template <class Index> TSL_INLINE ulonglong number_of_byte(Index index) const { return whole().number_of_byte(index); }
  template <class Pair> TSL_INLINE void load_pair(ulonglong address, Pair* pair) const { whole().load_pair(address, pair); }
};
#endif
