// What the C++ that Slang emits for [TorchEntryPoint] functions names: torch::Tensor, make_tensor_view, std::tuple, vectors,
// the launch of a kernel. Stands in for Slang's own prelude, which includes all of torch. Before it comes host_abi.h; after
// it the emitted text, in namespace tsl_host. See Note [host functions].
#pragma once

#include <tuple>

#define TSL_CHECKS 1  // of local indices: there are no views
#include "prelude/target.h"
#include "prelude/half.h"
#include "prelude/types.h"
#include "prelude/vectors.h"
#include "prelude/matrix.h"
#include "prelude/math_scalar.h"
#include "prelude/math_half.h"
#include "prelude/integers.h"

#define SLANG_PRELUDE_EXPORT
#define AT_CUDA_CHECK(expression) expression

namespace tsl {

struct Recorded {};  // thrown where a call through the table has failed

// The call that this thread runs.
struct HostCall {
  const TslHostTable* table;
  void* call;
};
static thread_local HostCall current;

inline void check(int status) {
  if (status != 0) throw Recorded{};
}

inline void report_local(const ThreadBase*, LocalKind kind, longlong index, size_t count) {
  check(current.table->refuse_index(current.call, kind, index, longlong(count)));
}
inline bool may_go_on() {
  check(current.table->may_go_on(current.call));
  return true;
}

// What indexes here is no thread.
template <class I> constexpr Index<I> host_index(I value) { return {value, nullptr}; }
template <class V, class I> ElementOf<V> checked_element(V vector, I index) {
  return _slang_vector_get_element(vector, int(inside<kComponents>(host_index(index), Traits<V>::size)));
}
template <class V, class I> ElementOf<V>* checked_element_ptr(V* vector, I index) {
  return &vector->x + inside<kComponents>(host_index(index), Traits<V>::size);
}

}  // namespace tsl

#undef TSL_INDEX
#define TSL_INDEX(...) tsl::host_index(__VA_ARGS__)
#define _slang_vector_get_element tsl::checked_element
#define _slang_vector_get_element_ptr tsl::checked_element_ptr
#if TSL_POLLS
#define TSL_POLL(file, line) tsl::may_go_on()
#else
#define TSL_POLL(file, line) true
#endif

namespace torch {

typedef TslElementType ScalarType;
constexpr ScalarType kFloat16 = kTslFloat16, kBFloat16 = kTslBFloat16, kFloat32 = kTslFloat32, kFloat64 = kTslFloat64,
                     kInt8 = kTslInt8, kInt16 = kTslInt16, kInt32 = kTslInt32, kInt64 = kTslInt64, kUInt8 = kTslUInt8,
                     kBool = kTslBool;

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : self_(other.self_) { if (self_ != nullptr) tsl::current.table->retain(self_); }
  Tensor(Tensor&& other) noexcept : self_(other.self_) { other.self_ = nullptr; }
  Tensor& operator=(Tensor other) noexcept { void* mine = self_; self_ = other.self_; other.self_ = mine; return *this; }
  ~Tensor() { if (self_ != nullptr) tsl::current.table->release(self_); }

  static Tensor owning(void* self) { Tensor tensor; tensor.self_ = self; return tensor; }
  void* get() const { return self_; }

  unsigned dims() const {
    long long result;
    tsl::check(tsl::current.table->dims(tsl::current.call, self_, &result));
    return unsigned(result);
  }
  unsigned size(unsigned dimension) const {
    long long result;
    tsl::check(tsl::current.table->size(tsl::current.call, self_, dimension, &result));
    return unsigned(result);
  }
  unsigned stride(unsigned dimension) const {
    long long result;
    tsl::check(tsl::current.table->stride(tsl::current.call, self_, dimension, &result));
    return unsigned(result);
  }
  template <class T> T* data_ptr() const {
    void* result;
    tsl::check(tsl::current.table->data(tsl::current.call, self_, &result));
    return static_cast<T*>(result);
  }
  void zero_() const { fill_(0); }
  template <class T> void fill_(T value) const;

 private:
  void* self_ = nullptr;
};

// Only the type counts: the device is that of the call's tensors.
constexpr int kCUDA = 0;
struct TensorOptions {
  ScalarType type = kFloat32;
  TensorOptions device(int) const { return *this; }
  TensorOptions dtype(ScalarType wanted) const { return {wanted}; }
};

template <int N>
Tensor empty(const long long (&sizes)[N], TensorOptions options) {
  void* result;
  tsl::check(tsl::current.table->empty(tsl::current.call, sizes, N, options.type, &result));
  return Tensor::owning(result);
}

inline Tensor empty_like(const Tensor& other, TensorOptions options) {
  void* result;
  tsl::check(tsl::current.table->empty_like(tsl::current.call, other.get(), options.type, &result));
  return Tensor::owning(result);
}

}  // namespace torch

struct TensorView {
  torch::Tensor tensor;
};

// Whether it is what the kernel wants is for the launch to say.
inline TensorView make_tensor_view(const torch::Tensor& tensor, const char*, torch::ScalarType, bool) { return {tensor}; }

typedef void* cudaStream_t;
inline void cudaStreamSynchronize(cudaStream_t) { tsl::check(tsl::current.table->synchronize(tsl::current.call)); }
namespace at::cuda {
inline cudaStream_t getCurrentCUDAStream() { return nullptr; }
}  // namespace at::cuda

namespace Slang {
inline const char* toTerminatedSlice(const char* text) { return text; }
}  // namespace Slang

// Vectors and matrices of this target are classes with constructors.
namespace tsl_host {

template <class T, int N>
struct Vector : TslVector<T, N> {
  Vector() = default;
  Vector(const TslVector<T, N>& other) : TslVector<T, N>(other) {}
  explicit Vector(T value) : TslVector<T, N>(tsl::splat<TslVector<T, N>>(value)) {}
  template <class... Rest> requires(N > 1 && sizeof...(Rest) + 1 == N)
  Vector(T first, Rest... rest) : TslVector<T, N>{first, T(rest)...} {}
};

template <class T, int R, int C>
struct Matrix {
  tsl::Rows<Vector<T, C>, R> rows;
  Matrix() = default;
  template <class... Rest> requires(R * C > 1 && sizeof...(Rest) + 1 == R * C)
  Matrix(T first, Rest... rest) {
    const T values[] = {first, T(rest)...};
    for (int i = 0; i < R * C; ++i) (&rows[i / C].x)[i % C] = values[i];
  }
};

}  // namespace tsl_host

namespace tsl {

template <class T, int N> struct Traits<tsl_host::Vector<T, N>> { using Element = T; static constexpr int size = N; };

// Components, appended; a list without memory only counts.
struct Components {
  TslComponent* at;
  int count = 0;
  void add(TslComponent component) {
    if (at != nullptr) at[count] = component;
    ++count;
  }
};

template <class T> inline constexpr bool kIsReal =
    IsSame<T, float>::value || IsSame<T, double>::value || IsSame<T, __half>::value || IsSame<T, __nv_bfloat16>::value;

// tsl_flatten(list, value): the value's components. The emitted text's structs have overloads of their own behind them.
inline void tsl_flatten(Components& list, const torch::Tensor& tensor) {
  TslComponent component;
  component.kind = kTslTensor;
  component.tensor = tensor.get();
  list.add(component);
}
inline void tsl_flatten(Components& list, const TensorView& view) { tsl_flatten(list, view.tensor); }
template <class T> requires(std::is_arithmetic_v<T> || kIsReal<T>)
void tsl_flatten(Components& list, const T& number) {
  TslComponent component;
  if constexpr (kIsReal<T>) {
    component.kind = kTslReal;
    component.real = static_cast<double>(number);
  } else {
    component.kind = kTslInteger;
    component.integer = static_cast<long long>(number);
  }
  list.add(component);
}
template <class T>
void tsl_flatten(Components& list, T* const& address) {
  tsl_flatten(list, reinterpret_cast<unsigned long long>(address));
}
template <class T, size_t N>
void tsl_flatten(Components& list, const FixedArray<T, N>& array) {
  for (size_t i = 0; i < N; ++i) tsl_flatten(list, array.m_data[i]);
}
template <class T, int N>
void tsl_flatten(Components& list, const tsl_host::Vector<T, N>& vector) {
  for (int i = 0; i < N; ++i) tsl_flatten(list, (&vector.x)[i]);
}
template <class T, int R, int C>
void tsl_flatten(Components& list, const tsl_host::Matrix<T, R, C>& matrix) {
  for (int i = 0; i < R; ++i) tsl_flatten(list, matrix.rows[i]);
}

// Results, each tensor with a reference for the run-time.
template <class T>
void give(Components& list, const T& value) {
  tsl_flatten(list, value);
}
inline void give(Components& list, torch::Tensor tensor) {
  if (tensor.get() != nullptr) current.table->retain(tensor.get());
  tsl_flatten(list, tensor);
}
template <class... T>
void give(Components& list, const std::tuple<T...>& tuple) {
  std::apply([&](const T&... parts) { (give(list, parts), ...); }, tuple);
}

// Arguments, in order.
template <class T>
struct Take {
  static T from(const TslComponent*& at) {
    const TslComponent component = *at++;
    return component.kind == kTslReal ? T(component.real) : T(component.integer);
  }
};
template <>
struct Take<torch::Tensor> {
  static torch::Tensor from(const TslComponent*& at) {
    current.table->retain(at->tensor);
    return torch::Tensor::owning((at++)->tensor);
  }
};
template <class... T>
struct Take<std::tuple<T...>> {
  static std::tuple<T...> from(const TslComponent*& at) { return std::tuple<T...>{Take<T>::from(at)...}; }
};

class OwnedList {
 public:
  explicit OwnedList(int count) : memory_(new TslComponent[count + 1]) {}
  ~OwnedList() { delete[] memory_; }
  OwnedList(const OwnedList&) = delete;
  TslComponent* get() const { return memory_; }

 private:
  TslComponent* memory_;
};

template <class Kernel> struct Dispatch;
template <class... A>
struct Dispatch<void(A...)> {
  static void flatten_all(Components& list, void** arguments) {
    int i = 0;
    (tsl_flatten(list, *static_cast<A*>(arguments[i++])), ...);
  }
};

// `launch<decltype(kernel)>("kernel", grid, block, addresses of its arguments, 0, stream)`.
template <class Kernel>
void launch(const char* kernel, dim3 grid, dim3 block, void** arguments, int, cudaStream_t) {
  Components count{nullptr};
  Dispatch<Kernel>::flatten_all(count, arguments);
  const OwnedList memory(count.count);
  Components list{memory.get()};
  Dispatch<Kernel>::flatten_all(list, arguments);
  const unsigned grid_size[] = {grid.x, grid.y, grid.z}, block_size[] = {block.x, block.y, block.z};
  check(current.table->launch(current.call, kernel, grid_size, block_size, list.at, list.count));
}

// Runs a host function for the run-time.
template <class R, class... A>
int enter(R (*function)(A...), const TslHostTable* table, void* call, const TslComponent* arguments,
          TslComponent* results) {
  struct Scope {
    HostCall outer = current;
    ~Scope() { current = outer; }
  } scope;
  current = {table, call};
  try {
    std::tuple<A...> values{Take<A>::from(arguments)...};
    if constexpr (IsSame<R, void>::value) {
      std::apply(function, values);
    } else {
      Components list{results};
      give(list, std::apply(function, values));
    }
    return 0;
  } catch (const Recorded&) {
    return 1;
  } catch (...) {
    return 2;
  }
}

}  // namespace tsl

template <class T>
void torch::Tensor::fill_(T value) const {
  TslComponent components[4];  // elements are scalars and vectors
  tsl::Components list{components};
  tsl::tsl_flatten(list, value);
  tsl::check(tsl::current.table->fill(tsl::current.call, self_, components, list.count));
}
