// Products of half and bfloat16 tiles on Hopper: two warpgroups multiply what a warp of its own has the tensor memory
// accelerator (TMA) bring to shared memory, ahead of them and without their registers.
//
// Note [wgmma]
//   A stage of the ring holds 64 steps along K of both operands, as the TMA lays them down with its 128-byte swizzle: slabs
//   of 8192 bytes, each 64 wide along M (or N). Where K is contiguous a slab is 64 rows of 64 steps, else 64 steps of 64
//   rows; wgmma takes either, so all four layouts run one loop, and only the bits of the instruction that say so differ.
//   Barriers: `full` of a stage is passed by as many bytes as were asked for, `empty` by one lane of each of the eight
//   warps. A fresh barrier lets those through who wait for the phase before its first, so the first fetches do not wait.
//   One group of wgmmas is always under way: a stage is given back after the group behind it was issued.
//   Large products run at the limit of power, so what else is done counts. Where the compiler sees that all of a warp is
//   together and has the same stage, it counts stages and makes descriptors once for the warp, which is 3 % of the time: so
//   no thread runs a loop alone, branches are by the number of the warp, and the ring moves on outside of them.
//   Smaller tiles need more from the L2 cache: at the speed of products 128 x 256 takes 48 bytes a clock and 128 x 128 64, but
//   64 x 128 96. Then it counts how much is under way. A step of 64 x 128, whose products take 256 clocks, takes 306 with four
//   stages, which leave room for another block on the multiprocessor, and 580 where operands fill more than half of the cache;
//   with eight stages 265. That blocks of a cluster fetch for each other (multicast) makes it slower: 360 to 430.
//   Where there are few steps the way to the first fetch counts, some 1500 clocks. Its warp has no sums to clear, and waits
//   for those who make barriers when it can do nothing else.
//   Source of shapes, descriptors and fragments: the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "prelude/mma_steps.h"
#include "prelude/mma_wgmma_instructions.h"

#if TSL_WGMMA

namespace tsl {

// kIsShared: other blocks send sums (Note [clusters]), to where else a store goes through. kWanted: so many stages if there is
// room, or 0.
//
// Note [turns]
//   kTurns 2: the left half of the tile (of 256 rows the upper one) is one warpgroup's and the rest the other's, and they take
//   turns: all steps of one come through the ring, and then all of the other. While one multiplies, the other applies its epilogue
//   and stores. In exchange a stage has half the columns (or rows), and so the operands come from the L2 cache as often as for
//   tiles of half the size.
//   A barrier tells an odd phase from an even one and no more: so who waits for a turn may not look at the ring yet. It waits
//   for `turn`, which those pass who have waited for the last stage of theirs.
template <class T, int kRows, int kColumns, bool kIsShared, int kWanted, int kTurns = 1>
struct WarpgroupProduct {
  using Sum = float;
  static constexpr int kThreads = 256, kCount = kRows * kColumns / kThreads;
  // The warpgroups share out rows; where there are too few, or they take turns, columns.
  static constexpr bool kHasUpperHalf = kTurns == 2 && kRows >= 256, kSharesRows = kRows >= 128 && (kTurns == 1 || kHasUpperHalf);
  static constexpr int kSlabs = kRows / (kSharesRows ? 128 : 64), kWidth = kSharesRows ? kColumns : kColumns / 2;
  static constexpr int kSums = kWidth / 2;  // of a slab
  static constexpr int kStageRows = kHasUpperHalf ? kRows / 2 : kRows, kStageColumns = kHasUpperHalf ? kColumns : kColumns / kTurns;
  static constexpr uint kSlabBytes = 8192, kBytesA = kStageRows * 128;
  // A slab whose rows run along N comes whole.
  static constexpr uint kSlabColumns = (kStageColumns + 63) / 64 * 64, kStageBytes = (kStageRows + kSlabColumns) * 128;
  // A store goes through pieces of 64 x 64, two for each warpgroup where it has so many, or one that both fill. Columns
  // beyond the last whole piece are stored from registers.
  static constexpr bool kHasOwnPieces = kWidth >= 64;
  static constexpr int kPieces = kHasOwnPieces ? kWidth / 64 : 1, kPieceColumns = kHasOwnPieces ? 64 : kWidth;
  static constexpr int kRestAt = kHasOwnPieces ? kPieces * 32 : kSums;  // the first element of a slab behind the pieces
  static constexpr bool kHasRest = kRestAt < kSums;
  static constexpr uint kBuffers = kSlabs * kPieces > 1 ? 2 : 1;
  static constexpr uint kStoreBytes = (kHasOwnPieces ? 2 : 1) * kBuffers * kSlabBytes;
  // Of small tiles a multiprocessor makes two at once: one begins or ends while the other multiplies.
  static constexpr bool kIsOneOfTwo = kRows * kColumns <= 64 * 128 && !kIsShared && kWanted == 0;
  static constexpr uint kBudget = (kIsOneOfTwo ? 113 : 227) * 1024;
  static constexpr uint kOtherBytes = (kIsShared ? kRows * kColumns * 4 : kStoreBytes) + kBarrierBytes;
  static constexpr uint kFit = (kBudget - kOtherBytes) / kStageBytes, kMost = kWanted > 0 && kWanted < 8 ? kWanted : 8;
  static constexpr uint kStages = kFit < kMost ? kFit : kMost;
  static constexpr int kSharedBytes = int(kStages * kStageBytes + kOtherBytes), kSharedBytesOfList = kSharedBytes + int(kStages * 4);
  static_assert((kRows == 64 || kRows % 128 == 0) && kColumns <= 256 && kStages >= 2 &&
                    (kSharesRows ? kWidth >= 64 : kWidth == 32 || kWidth % 64 == 0) &&
                    (kTurns == 1 || (kTurns == 2 && !kIsShared && kWidth % 64 == 0)),
                "there is no such tile of half or bfloat16 on Hopper");
  static_assert((2 * kStages + kTurns) * 8 <= kBarrierBytes, "a stage has two barriers, and so have turns, or the exchange one");

  static TSL_INLINE uint row(uint thread, int i) {
    const uint group = thread / 128, warp = thread / 32 % 4, lane = thread % 32;
    return ((kSharesRows ? group * kSlabs : 0) + i / kSums) * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
  }
  static TSL_INLINE uint column(uint thread, int i) {
    const uint group = thread / 128, lane = thread % 32;
    return (kSharesRows ? 0 : group * kWidth) + i % kSums / 4 * 8 + lane % 4 * 2 + i % 2;
  }

  // Where the parts of shared memory lie. Barriers come last.
  static TSL_INLINE uint stage_at(uint base, uint stage) { return base + stage * kStageBytes; }
  static TSL_INLINE uint store_at(uint base) { return base + kStages * kStageBytes; }
  static TSL_INLINE uint full_at(uint base, uint stage) {
    return store_at(base) + kOtherBytes - kBarrierBytes + stage * 8;
  }
  static TSL_INLINE uint empty_at(uint base, uint stage) { return full_at(base, kStages + stage); }
  static TSL_INLINE uint turn_at(uint base, uint group) { return empty_at(base, kStages + group); }

  struct Ring {
    uint base = 0, stage = 0, phase = 0;
    bool is_ready = false;  // all know that the barriers are there
    uint products = 0;      // before this one
    TSL_INLINE void advance() {
      if (++stage < kStages) return;
      stage = 0;
      phase ^= 1;
    }
    TSL_INLINE void skip(uint steps) {
      const uint rounds = (stage + steps) / kStages;
      stage = (stage + steps) % kStages;
      phase ^= rounds & 1;
    }
  };

  // Makes barriers, for those who meet in `ready`. Not by the warp that fetches, which has enough to do at first.
  static TSL_INLINE void begin(uint base, uint warp) {
    if (warp != 0 || !is_elected()) return;
#pragma unroll
    for (uint s = 0; s < kStages; ++s) {
      barrier::init(full_at(base, s), 1);
      barrier::init(empty_at(base, s), 8 / kTurns);
    }
    if constexpr (kTurns > 1) {
      barrier::init(turn_at(base, 0), 4);
      barrier::init(turn_at(base, 1), 4);
    }
    barrier::publish();
  }
  static TSL_INLINE void ready() {
    __syncwarp();
    asm volatile("bar.sync 11, 288;" ::: "memory");
  }

  // `at` is the box's first step along K and its first row or column. An operand whose K is contiguous comes in one box.
  template <int kExtent, bool kTurned>
  static TSL_INLINE void fetch(const TslMatrixMap& map, uint to, uint full, uint k, uint at, uint batch) {
    if constexpr (!kTurned) {
      fetch_box(map, to, full, k, at, batch);
    } else {
#pragma unroll
      for (uint i = 0; i < kExtent; i += 64) fetch_box(map, to + i * 128, full, at + i, k, batch);
    }
  }

  // What the fetching warp does for one product. That one thread issues it, the compiler must know: else it makes loops
  // over threads of what these instructions take.
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE void fetch_all(const TslMatrixMap& a, const TslMatrixMap& b, uint batch_a, uint batch_b, Steps steps,
                                   uint3 at, Ring ring) {
#pragma unroll 1
    for (uint turn = 0; turn < kTurns; ++turn, at = next_half(at)) {
#pragma unroll 1
      for (uint k = steps.first * 64; k < steps.end * 64; k += 64) {
        const uint full = full_at(ring.base, ring.stage), to = stage_at(ring.base, ring.stage);
        barrier::wait(empty_at(ring.base, ring.stage), ring.phase ^ 1);
        if (is_elected()) {
          barrier::expect(full, (kStageRows + (kTurnedB ? kSlabColumns : kStageColumns)) * 128);
          fetch<kStageRows, kTurnedA>(a, to, full, k, at.y, batch_a);
          fetch<kStageColumns, kTurnedB>(b, to + kBytesA, full, k, at.z, batch_b);
        }
        __syncwarp();
        ring.advance();
      }
    }
  }

  static TSL_INLINE uint3 next_half(uint3 at) {
    return {at.x, at.y + (kHasUpperHalf ? kStageRows : 0), at.z + (kHasUpperHalf ? 0 : kStageColumns)};
  }

  // The same of blocks, each of so many `steps`; returns how many there are of all. What the list says of 32 blocks the lanes read
  // at once, ahead.
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE uint fetch_blocks(const TslMatrixMap& a, const TslMatrixMap& blocks, uint batch_a, const BlockList& list,
                                      uint steps, uint3 at, Ring ring) {
    const uint lane = threadIdx.x % 32, first = list.first(), end = list.end(), all = (end - first) * steps;
#pragma unroll 1
    for (uint turn = 0; turn < kTurns; ++turn, at = next_half(at)) {
      if constexpr (kTurns == 1) announce(ring, all);
#pragma unroll 1
      for (uint chunk = first; chunk < end; chunk += 32) {
        const bool reads = chunk + lane < end;
        const uint depth = reads ? list.depth(chunk + lane) : 0u, matrix = reads ? list.matrix(chunk + lane) : 0u;
        const uint count = least(end - chunk, 32u);
#pragma unroll 1
        for (uint i = 0; i < count * steps; ++i) {
          const uint from = i / steps, k = i % steps * 64;
          const uint column = __shfl_sync(0xffffffffu, depth, from) * steps * 64;
          const uint batch = __shfl_sync(0xffffffffu, matrix, from);
          const uint full = full_at(ring.base, ring.stage), to = stage_at(ring.base, ring.stage);
          barrier::wait(empty_at(ring.base, ring.stage), ring.phase ^ 1);
          if (is_elected()) {
            barrier::expect(full, (kStageRows + (kTurnedB ? kSlabColumns : kStageColumns)) * 128);
            fetch<kStageRows, kTurnedA>(a, to, full, column + k, at.y, batch_a);
            fetch<kStageColumns, kTurnedB>(blocks, to + kBytesA, full, k, at.z, batch);
          }
          __syncwarp();
          ring.advance();
        }
      }
    }
    return all;
  }

  // How many steps a list has, those who multiply learn from who fetches: that stands in memory, and to wait for it would take as
  // long as a stage or two. The list's first stage tells it; one without steps has a stage nevertheless.
  static TSL_INLINE uint announced_at(uint base, uint stage) { return base + kSharedBytes + stage * 4; }
  static TSL_INLINE void announce(const Ring& ring, uint steps) {
    barrier::wait(empty_at(ring.base, ring.stage), ring.phase ^ 1);
    if (is_elected()) {
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(announced_at(ring.base, ring.stage)), "r"(steps) : "memory");
      if (steps == 0) barrier::arrive(full_at(ring.base, ring.stage));
    }
    __syncwarp();
  }
  static TSL_INLINE uint announced(const Ring& ring) {
    uint steps;
    barrier::wait(full_at(ring.base, ring.stage), ring.phase);
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(steps) : "r"(announced_at(ring.base, ring.stage)) : "memory");
    return __shfl_sync(0xffffffffu, steps, 0);
  }

  // The products of one stage are under way when this returns. kIsWhole: it has the columns of both warpgroups.
  template <bool kTurnedA, bool kTurnedB, bool kIsWhole = kTurns == 1>
  static TSL_INLINE void multiply_stage(float* sums, uint stage, uint group) {
    constexpr uint kColumnsAt = kIsWhole ? kRows * 128 : kBytesA;
    const uint a = stage + (kSharesRows && kIsWhole ? group * kSlabs * kSlabBytes : 0);
    // Half of a slab whose rows run along N is half of each row.
    constexpr uint kHalf = kWidth < 64 && kTurnedB ? kWidth * 2 : kWidth * 128;
    const uint b = stage + kColumnsAt + (kSharesRows || !kIsWhole ? 0 : group * kHalf);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) {
        multiply_tiles<T, kWidth, kTurnedA, kTurnedB>(
            sums + s * kSums, tile_descriptor(a + s * kSlabBytes) + k * (kTurnedA ? 128 : 2),
            tile_descriptor(b) + k * (kTurnedB ? 128 : 2));
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  template <int kUnderWay> static TSL_INLINE void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnderWay) : "memory");
  }
  // No read of a sum moves above the wait for it.
  static TSL_INLINE void settle(float* sums) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
  }

  // Who fetches has no elements, and no time to clear them.
  static TSL_INLINE void forget(float* sums) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(sums[i]));
  }

  // `multiply_stage(stage)`: has the products of a stage under way when it returns.
  template <class MultiplyStage>
  static TSL_INLINE void multiply_all(float* sums, uint steps, uint thread, Ring ring, const MultiplyStage& multiply_stage) {
    const bool gives_back = thread % 32 == 0;
    uint before = 0;
#pragma unroll 1
    for (uint step = 0; step < steps; ++step) {
      barrier::wait(full_at(ring.base, ring.stage), ring.phase);
      multiply_stage(stage_at(ring.base, ring.stage));
      wait_for_products<1>();
      if (step > 0 && gives_back) barrier::arrive(empty_at(ring.base, before));
      before = ring.stage;
      ring.advance();
    }
    if constexpr (kTurns > 1) {
      if (gives_back) barrier::arrive(turn_at(ring.base, thread < 128 ? 1 : 0));
    }
    wait_for_products<0>();
    if (steps > 0 && gives_back) barrier::arrive(empty_at(ring.base, before));
    settle(sums);
  }
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE void multiply_all(float* sums, uint steps, uint thread, uint warp, Ring ring) {
    if constexpr (kTurns > 1) {
      const uint group = warp / 4;
      ring.skip(group * steps);
      if (group == 1) barrier::wait(turn_at(ring.base, 1), ring.products & 1);
      else if (ring.products > 0) barrier::wait(turn_at(ring.base, 0), (ring.products - 1) & 1);
    }
    multiply_all(sums, steps, thread, ring,
                 [&](uint stage) { multiply_stage<kTurnedA, kTurnedB>(sums, stage, warp / 4); });
  }

  static TSL_INLINE void multiply(float* sums, const MappedMatrix& a, const MappedMatrix& b, Steps steps, uint3 at,
                                  uint thread, uint warp, Ring& ring) {
    if (a.contiguous == 0) {
      if (b.contiguous == 1) multiply<true, true>(sums, a, b, steps, at, thread, warp, ring);
      else multiply<true, false>(sums, a, b, steps, at, thread, warp, ring);
    } else {
      if (b.contiguous == 1) multiply<false, true>(sums, a, b, steps, at, thread, warp, ring);
      else multiply<false, false>(sums, a, b, steps, at, thread, warp, ring);
    }
    ring.skip((steps.end - steps.first) * kTurns);
    ++ring.products;
  }
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE void multiply(float* sums, const MappedMatrix& a, const MappedMatrix& b, Steps steps, uint3 at,
                                  uint thread, uint warp, const Ring& ring) {
    const uint batch_a = a.batches > 1 ? at.x : 0, batch_b = b.batches > 1 ? at.x : 0;
    if (!ring.is_ready) ready();
    if (warp < kThreads / 32) {
      multiply_all<kTurnedA, kTurnedB>(sums, steps.end - steps.first, thread, warp, ring);
    } else {
      fetch_all<kTurnedA, kTurnedB>(a.map, b.map, batch_a, batch_b, steps, at, ring);
      forget(sums);
    }
  }

  // `steps`: of 64 along K in each block.
  static TSL_INLINE void multiply_list(float* sums, const MappedMatrix& a, const MappedMatrix& blocks, const BlockList& list,
                                       uint steps, uint3 at, uint thread, uint warp, Ring& ring) {
    uint all;
    if (a.contiguous == 0) {
      if (blocks.contiguous == 1) all = multiply_list<true, true>(sums, a, blocks, list, steps, at, thread, warp, ring);
      else all = multiply_list<true, false>(sums, a, blocks, list, steps, at, thread, warp, ring);
    } else {
      if (blocks.contiguous == 1) all = multiply_list<false, true>(sums, a, blocks, list, steps, at, thread, warp, ring);
      else all = multiply_list<false, false>(sums, a, blocks, list, steps, at, thread, warp, ring);
    }
    all = __shfl_sync(0xffffffffu, all, 0);
    ring.skip(kTurns == 1 && all == 0 ? 1 : all * kTurns);
    ++ring.products;
  }
  // Returns how many steps the list has.
  template <bool kTurnedA, bool kTurnedB>
  static TSL_INLINE uint multiply_list(float* sums, const MappedMatrix& a, const MappedMatrix& blocks, const BlockList& list,
                                       uint steps, uint3 at, uint thread, uint warp, const Ring& ring) {
    if (!ring.is_ready) ready();
    if (warp >= kThreads / 32) {
      forget(sums);
      return fetch_blocks<kTurnedA, kTurnedB>(a.map, blocks.map, a.batches > 1 ? at.x : 0, list, steps, at, ring);
    }
    // Who has the second turn may not look at the stages of the first.
    const uint all = kTurns > 1 ? __shfl_sync(0xffffffffu, (list.end() - list.first()) * steps, 0) : announced(ring);
    multiply_all<kTurnedA, kTurnedB>(sums, all, thread, warp, ring);
    if (kTurns == 1 && all == 0 && thread % 32 == 0) barrier::arrive(empty_at(ring.base, ring.stage));
    return all;
  }

  // For operands that the TMA does not take (rows that do not begin at multiples of 16 bytes, elements apart): the threads
  // that multiply fetch for themselves, into the first stage.
  template <int kExtent>
  static TSL_INLINE void copy(unsigned char* to, Matrix<const T> from, uint first, uint k, uint thread) {
    const bool along = from.column_stride == 1;  // neighbours in memory go to neighbouring threads
#pragma unroll 1
    for (uint i = thread; i < kExtent * 64; i += kThreads) {
      const uint r = along ? i / 64 : i % kExtent, c = along ? i % 64 : i / kExtent;
      const bool inside = first + r < from.rows && k + c < from.columns;
      const T value = inside ? from.data[(first + r) * from.row_stride + (k + c) * from.column_stride] : T{};
      *reinterpret_cast<T*>(to + r / 64 * kSlabBytes + r % 64 * 128 + ((c / 8 ^ r % 8) * 16 + c % 8 * 2)) = value;
    }
  }
  static TSL_INLINE void multiply_copies(float* sums, Matrix<const T> a, Matrix<const T> b, uint3 at, uint thread, uint warp,
                                         unsigned char* shared, uint base) {
    if (warp >= kThreads / 32) return;
    const Matrix<const T> turned{b.data, b.column_stride, b.row_stride, b.columns, b.rows};
#pragma unroll 1
    for (uint k = 0; k < a.columns; k += 64) {
      meet_in_tile();
      copy<kRows>(shared, a, at.y, k, thread);
      copy<kColumns>(shared + kRows * 128, turned, at.z, k, thread);
      publish_to_async();
      meet_in_tile();
      multiply_stage<false, false, true>(sums, base, warp / 4);
      wait_for_products<0>();
    }
    settle(sums);
  }

  // Pieces of 64 x 64 by way of shared memory; the TMA leaves out elements outside.
  static TSL_INLINE void store(const float* sums, const MappedMatrix& c, Matrix<T> to, uint3 at, uint thread, uint warp,
                               uint base) {
    const uint group = warp / 4, lane = thread % 32, own_row = thread / 32 % 4 * 16 + lane % 16;
    const uint mine = store_at(base) + (kHasOwnPieces ? group * kBuffers * kSlabBytes : 0);
    const bool issues = kHasOwnPieces ? thread % 128 == 0 : thread == 0;
#pragma unroll
    for (int piece = 0; piece < kSlabs * kPieces; ++piece) {
      const int slab = piece / kPieces, part = piece % kPieces;
      const uint buffer = mine + piece % 2 * kSlabBytes;
      if (issues) {  // an earlier tile's last piece may have been in the same buffer
        if (piece == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        else asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      }
      meet<kHasOwnPieces>(group);
#pragma unroll
      for (int j = 0; j < kPieceColumns / 16; ++j) {  // 16 columns each
        const float* e = sums + slab * kSums + part * 32 + j * 8;
        const uint word = (kHasOwnPieces ? 0 : group * kPieceColumns / 8) + j * 2 + lane / 16;
        const uint to = buffer + own_row * 128 + (word ^ own_row % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pack<T>(e[0], e[1])),
                     "r"(pack<T>(e[2], e[3])), "r"(pack<T>(e[4], e[5])), "r"(pack<T>(e[6], e[7]))
                     : "memory");
      }
      publish_to_async();
      meet<kHasOwnPieces>(group);
      if (issues) {
        store_box(c.map, buffer, at.z + (kSharesRows ? 0 : group * kWidth) + part * 64,
                  at.y + ((kSharesRows ? group * kSlabs : 0) + slab) * 64, c.batches > 1 ? at.x : 0);
      }
    }
    if constexpr (kHasRest) {
#pragma unroll
      for (int slab = 0; slab < kSlabs; ++slab) {
        store_vectors<WarpgroupProduct, kSums - kRestAt>(sums + slab * kSums + kRestAt, slab * kSums + kRestAt, to, at, thread);
      }
    }
  }

  // Whether 16 bytes of a row can be stored at once.
  static TSL_INLINE bool has_vectors(Matrix<T> to, uint3 at) {
    return to.column_stride == 1 && tsl::has_vectors(to.data + longlong(at.y) * to.row_stride + at.z, to.row_stride);
  }

 private:
  // A warpgroup, or both.
  template <bool kAlone> static TSL_INLINE void meet(uint group) {
    if constexpr (kAlone) asm volatile("bar.sync %0, 128;" ::"r"(group + 9) : "memory");
    else meet_in_tile();
  }
};

}  // namespace tsl

#endif
