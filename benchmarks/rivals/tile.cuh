// What the rivals in CUDA share. Each file is compiled at run time with these set (benchmarks/rivals/cuda.py):
// ELEMENT (float, double, Half, BFloat16), VECTOR_BYTES (what one load takes) and UNROLL (loads in flight of each tensor).
//
// A block takes a tile of BLOCK * UNROLL vectors. Neighbouring threads take neighbouring vectors, and a thread's vectors
// lie BLOCK apart, so each load of a warp is contiguous. Needs no header: NVRTC finds none on a machine without a toolkit.
#pragma once

using Index = unsigned int;
constexpr Index BLOCK = 256;

struct Half {
  unsigned short bits;
  __device__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  static __device__ Half of(float value) {
    Half half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
  }
};

struct BFloat16 {
  unsigned short bits;
  __device__ operator float() const { return __uint_as_float(static_cast<unsigned int>(bits) << 16); }
  static __device__ BFloat16 of(float value) {
    BFloat16 half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
  }
};

// What is computed with: float for the types of 16 bits.
template <class T>
struct Arithmetic {
  using Type = float;
  static __device__ T rounded(float value) { return T::of(value); }
};
template <>
struct Arithmetic<float> {
  using Type = float;
  static __device__ float rounded(float value) { return value; }
};
template <>
struct Arithmetic<double> {
  using Type = double;
  static __device__ double rounded(double value) { return value; }
};

using Element = ELEMENT;
using Number = Arithmetic<Element>::Type;
__device__ __forceinline__ Element rounded(Number value) { return Arithmetic<Element>::rounded(value); }

constexpr Index WIDTH = VECTOR_BYTES < sizeof(Element) ? 1 : VECTOR_BYTES / sizeof(Element);
constexpr Index TILE = BLOCK * UNROLL * WIDTH;

template <class T>
struct alignas(sizeof(T) * WIDTH) Vector {
  T at[WIDTH];
};

template <Index BYTES>
struct WordOf;
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = unsigned int;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

// A read-only load of a whole vector (ld.global.nc).
template <class T>
__device__ __forceinline__ Vector<T> load(const T* from) {
  using Word = typename WordOf<sizeof(Vector<T>)>::Type;
  const Word word = __ldg(reinterpret_cast<const Word*>(from));
  Vector<T> vector;
  memcpy(&vector, &word, sizeof(vector));
  return vector;
}

template <class T>
__device__ __forceinline__ T load_one(const T* from) {
  using Word = typename WordOf<sizeof(T)>::Type;
  const Word word = __ldg(reinterpret_cast<const Word*>(from));
  T value;
  memcpy(&value, &word, sizeof(value));
  return value;
}

template <class T>
__device__ __forceinline__ void store(T* to, const Vector<T>& vector) {
  *reinterpret_cast<Vector<T>*>(to) = vector;
}

// The first element of the thread's vector `u`.
__device__ __forceinline__ Index place(Index u) {
  return blockIdx.x * TILE + (u * BLOCK + threadIdx.x) * WIDTH;
}

// What a thread does with elements of the last tile, one at a time.
template <class Step>
__device__ __forceinline__ void remainder(Index count, Step step) {
  for (Index i = blockIdx.x * TILE + threadIdx.x; i < count; i += BLOCK) step(i);
}

__device__ __forceinline__ bool is_full(Index count) {
  return blockIdx.x < count / TILE;
}

// to[k][i] = formula(from[0][i], from[1][i], ...)[k]
template <int INPUTS, int OUTPUTS, class Formula>
__device__ __forceinline__ void elementwise(
    Index count, const Element* const (&from)[INPUTS], Element* const (&to)[OUTPUTS], Formula formula) {
  if (!is_full(count)) {
    remainder(count, [&](Index i) {
      Number in[INPUTS], out[OUTPUTS];
#pragma unroll
      for (int k = 0; k < INPUTS; ++k) in[k] = load_one(from[k] + i);
      formula(in, out);
#pragma unroll
      for (int k = 0; k < OUTPUTS; ++k) to[k][i] = rounded(out[k]);
    });
    return;
  }
  Vector<Element> vectors[INPUTS][UNROLL];
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
#pragma unroll
    for (int k = 0; k < INPUTS; ++k) vectors[k][u] = load(from[k] + place(u));
  }
#pragma unroll
  for (Index u = 0; u < UNROLL; ++u) {
    Vector<Element> results[OUTPUTS];
#pragma unroll
    for (Index w = 0; w < WIDTH; ++w) {
      Number in[INPUTS], out[OUTPUTS];
#pragma unroll
      for (int k = 0; k < INPUTS; ++k) in[k] = vectors[k][u].at[w];
      formula(in, out);
#pragma unroll
      for (int k = 0; k < OUTPUTS; ++k) results[k].at[w] = rounded(out[k]);
    }
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k) store(to[k] + place(u), results[k]);
  }
}
