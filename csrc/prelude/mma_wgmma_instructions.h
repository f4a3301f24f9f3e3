// What products on Hopper are made of: the tensor memory accelerator's copies, wgmma, and stores from its registers (Note [wgmma] in
// mma_wgmma.h).
#pragma once

#include "prelude/mma_cluster.h"
#include "prelude/mma_matrix.h"

#if TSL_WGMMA

namespace tsl {

// --- the instructions

// A box of a tensor map to shared memory, and from there.
TSL_INLINE void fetch_box(const TslMatrixMap& map, uint to, uint barrier, uint inner, uint outer, uint batch) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
      ::"r"(to), "l"(&map), "r"(inner), "r"(outer), "r"(batch), "r"(barrier)
      : "memory");
}
TSL_INLINE void store_box(const TslMatrixMap& map, uint from, uint inner, uint outer, uint batch) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
               "r"(inner), "r"(outer), "r"(batch), "r"(from)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// A view and what the launcher says of it.
struct MappedMatrix {
  const TslMatrixMap& map;
  int contiguous;
  uint batches;
};
TSL_INLINE MappedMatrix mapped(const TslArgs& args, int view) {
  return {args.maps[view], args.layouts[view].contiguous, args.layouts[view].batches};
}

// One thread of the warp.
TSL_INLINE bool is_elected() {
  uint elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

// The first fetch and the first store would wait for the maps. By a warp that has nothing else to do yet.
template <uint kView = 0> TSL_INLINE void prefetch_maps(const TslArgs& args) {
  if constexpr (kView < TSL_VIEW_COUNT) {
    if (args.layouts[kView].contiguous >= 0) asm volatile("prefetch.tensormap [%0];" ::"l"(&args.maps[kView]) : "memory");
    prefetch_maps<kView + 1>(args);
  }
}

// A tile of shared memory as wgmma finds it.
TSL_INLINE ulonglong tile_descriptor(uint at) {
  constexpr ulonglong kLeading = 8192 >> 4, kStride = 1024 >> 4, kSwizzle128 = 1;
  return ulonglong((at & 0x3ffffu) >> 4) | kLeading << 16 | kStride << 32 | kSwizzle128 << 62;
}

// The same of tiles whose rows are 128, 64 or 32 bytes, as wide as their swizzle. `leading`: bytes between those side by side.
template <int kRowBytes> TSL_INLINE ulonglong swizzled_descriptor(uint at, uint leading) {
  constexpr ulonglong kSwizzle = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return ulonglong((at & 0x3ffffu) >> 4) | ulonglong(leading >> 4) << 16 | ulonglong(kRowBytes * 8 >> 4) << 32 | kSwizzle << 62;
}

// Operands %0 to %(n - 1) of an instruction's text, and of its list.
#define TSL_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define TSL_FIRST_TEN "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,"
#define TSL_NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TSL_NAMES_16 TSL_FIRST_TEN "%10,%11,%12,%13,%14,%15"
#define TSL_NAMES_32 TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) "%30,%31"
#define TSL_NAMES_64 TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) "%60,%61,%62,%63"
#define TSL_NAMES_72                                                                                         \
  TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) TSL_TEN(6) "%70,%71"
#define TSL_NAMES_80                                                                                         \
  TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) TSL_TEN(6) "%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define TSL_NAMES_96                                                                                         \
  TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) TSL_TEN(6) TSL_TEN(7) TSL_TEN(8)      \
  "%90,%91,%92,%93,%94,%95"
#define TSL_NAMES_112                                                                                        \
  TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) TSL_TEN(6) TSL_TEN(7) TSL_TEN(8)      \
  TSL_TEN(9) TSL_TEN(10) "%110,%111"
#define TSL_NAMES_128                                                                                        \
  TSL_FIRST_TEN TSL_TEN(1) TSL_TEN(2) TSL_TEN(3) TSL_TEN(4) TSL_TEN(5) TSL_TEN(6) TSL_TEN(7) TSL_TEN(8)      \
  TSL_TEN(9) TSL_TEN(10) TSL_TEN(11) "%120,%121,%122,%123,%124,%125,%126,%127"
#define TSL_SUMS_8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define TSL_SUMS_16(i) TSL_SUMS_8(i), TSL_SUMS_8(i + 8)
#define TSL_SUMS_32(i) TSL_SUMS_16(i), TSL_SUMS_16(i + 16)
#define TSL_SUMS_64(i) TSL_SUMS_32(i), TSL_SUMS_32(i + 32)
#define TSL_SUMS_72(i) TSL_SUMS_64(i), TSL_SUMS_8(i + 64)
#define TSL_SUMS_80(i) TSL_SUMS_64(i), TSL_SUMS_16(i + 64)
#define TSL_SUMS_96(i) TSL_SUMS_64(i), TSL_SUMS_32(i + 64)
#define TSL_SUMS_112(i) TSL_SUMS_96(i), TSL_SUMS_16(i + 96)
#define TSL_SUMS_128(i) TSL_SUMS_64(i), TSL_SUMS_64(i + 64)

// Adds the product of 64 x 16 and 16 x N. kTurnedA, kTurnedB: M (N) is contiguous, not K.
template <class T, int kWidth, bool kTurnedA, bool kTurnedB>
TSL_INLINE void multiply_tiles(float* d, ulonglong a, ulonglong b) {
#define TSL_WGMMA_OF(TYPE, N, COUNT, A, B, TURNED_A, TURNED_B)                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" TSL_NAMES_##COUNT       \
               "}, %" #A ", %" #B ", 1, 1, 1, %" #TURNED_A ", %" #TURNED_B ";"                              \
               : TSL_SUMS_##COUNT(0)                                                                        \
               : "l"(a), "l"(b), "n"(kTurnedA), "n"(kTurnedB))
#define TSL_WGMMA_EITHER(N, COUNT, A, B, TURNED_A, TURNED_B)                                                \
  if constexpr (IsSame<T, __half>::value) TSL_WGMMA_OF("f16", N, COUNT, A, B, TURNED_A, TURNED_B);          \
  else TSL_WGMMA_OF("bf16", N, COUNT, A, B, TURNED_A, TURNED_B)
  if constexpr (kWidth == 256) {
    TSL_WGMMA_EITHER(256, 128, 128, 129, 130, 131);
  } else if constexpr (kWidth == 224) {
    TSL_WGMMA_EITHER(224, 112, 112, 113, 114, 115);
  } else if constexpr (kWidth == 192) {
    TSL_WGMMA_EITHER(192, 96, 96, 97, 98, 99);
  } else if constexpr (kWidth == 160) {
    TSL_WGMMA_EITHER(160, 80, 80, 81, 82, 83);
  } else if constexpr (kWidth == 144) {
    TSL_WGMMA_EITHER(144, 72, 72, 73, 74, 75);
  } else if constexpr (kWidth == 128) {
    TSL_WGMMA_EITHER(128, 64, 64, 65, 66, 67);
  } else if constexpr (kWidth == 64) {
    TSL_WGMMA_EITHER(64, 32, 32, 33, 34, 35);
  } else if constexpr (kWidth == 16) {
    TSL_WGMMA_EITHER(16, 8, 8, 9, 10, 11);
  } else {
    static_assert(kWidth == 32, "there is no such part of a tile");
    TSL_WGMMA_EITHER(32, 16, 16, 17, 18, 19);
  }
#undef TSL_WGMMA_EITHER
#undef TSL_WGMMA_OF
}
#undef TSL_SUMS_8
#undef TSL_SUMS_16
#undef TSL_SUMS_32
#undef TSL_SUMS_64
#undef TSL_SUMS_72
#undef TSL_SUMS_80
#undef TSL_SUMS_96
#undef TSL_SUMS_112
#undef TSL_SUMS_128

// --- stores from registers

template <class T> TSL_INLINE uint pack(float low, float high) {
  uint pair;
  if constexpr (IsSame<T, __half>::value) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
// A 4 x 4 matrix, whose rows are the threads' words, is transposed in two such steps.
template <uint kApart> TSL_INLINE void exchange(uint& low, uint& high, uint mine) {
  const bool is_high = (mine & kApart) != 0;
  const uint came = __shfl_xor_sync(0xffffffffu, is_high ? low : high, kApart);
  if (is_high) low = came;
  else high = came;
}
// Of four threads each has four words of a pair of elements, `kStep` apart; number `mine` gets word number `mine` of each.
template <class T, int kStep = 2> TSL_INLINE uint4 exchanged(const float* sums, uint mine) {
  uint4 words{pack<T>(sums[0], sums[1]), pack<T>(sums[kStep], sums[kStep + 1]), pack<T>(sums[2 * kStep], sums[2 * kStep + 1]),
              pack<T>(sums[3 * kStep], sums[3 * kStep + 1])};
  exchange<2>(words.x, words.z, mine);
  exchange<2>(words.y, words.w, mine);
  exchange<1>(words.x, words.y, mine);
  exchange<1>(words.z, words.w, mine);
  return words;
}
// kMany elements from number `first` on, straight from registers: Product says where in the tile they are. Four threads have 8 columns of a row, two each: they
// exchange them with those of other columns, so that each stores 16 bytes.
template <class Product, int kMany, class T>
TSL_INLINE void store_vectors(const float* sums, int first, Matrix<T> to, uint3 at, uint thread) {
  static_assert(kMany % 8 == 0, "four threads have four words each");
  // Elements i, i + 1 and i + 4, i + 5 are in a row; i + 2 and i + 3 below them.
  constexpr int kTurn = kMany % 16 == 0 ? 16 : 8, kStep = kTurn / 4;
  const uint mine = thread % 4;
#pragma unroll
  for (int turn = 0; turn < kMany / 8; ++turn) {
    const int i = kTurn == 16 ? turn / 2 * 16 + turn % 2 * 2 : turn * 8;
    const uint4 words = exchanged<T, kStep>(sums + i, mine);
    const int element = first + i + int(mine) * kStep;
    const uint r = at.y + Product::row(thread, element), c = at.z + Product::column(thread - mine, element);
    if (r >= to.rows || c >= to.columns) continue;
    T* place = to.data + longlong(r) * to.row_stride + c;
    if (c + 8 <= to.columns) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(place), "r"(words.x), "r"(words.y), "r"(words.z),
                   "r"(words.w)
                   : "memory");
    } else {
#pragma unroll
      for (uint k = 0; k < 7; ++k) {
        const uint word = k < 2 ? words.x : k < 4 ? words.y : k < 6 ? words.z : words.w;
        if (c + k < to.columns) reinterpret_cast<ushort*>(place)[k] = ushort(word >> k % 2 * 16);
      }
    }
  }
}

}  // namespace tsl

#endif
