// Barriers that count bytes, and clusters of blocks that reach each other's shared memory: Hopper and later.
#pragma once

#include "prelude/mma_matrix.h"

namespace tsl {

constexpr uint kBarrierBytes = 144;  // at the end of shared memory; the last eight are the exchange's

#if TSL_CLUSTERS

// Makes writes to shared memory visible to the TMA and to wgmma.
TSL_INLINE void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

namespace cluster {
// All threads of all blocks. Without a fence of global memory, which would take longer than all else: who writes to
// another block's shared memory does so by copies that its barriers count.
TSL_INLINE void arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
TSL_INLINE void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Where block number `block` has what this one has at `at`.
TSL_INLINE uint address_in(uint at, uint block) {
  uint there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
  return there;
}
// 16 bytes to another block's memory, whose barrier counts them. Addresses are those of address_in.
TSL_INLINE void send(uint to, const float* v, uint arrived) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(arrived)
               : "memory");
}
TSL_INLINE void send(uint to, const double* v, uint arrived) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];" ::"r"(to), "d"(v[0]),
               "d"(v[1]), "r"(arrived)
               : "memory");
}
// Adds the numbers of 16 bytes that came.
template <int kNumbers, class Sum>
TSL_INLINE void add(Sum* sums, const unsigned char* from) {
  using Bytes16 = typename WordOf<16>::type;
  const auto came = slang_bit_cast<FixedArray<Sum, kNumbers>>(*reinterpret_cast<const Bytes16*>(from));
#pragma unroll
  for (int k = 0; k < kNumbers; ++k) sums[k] += came[k];
}
}  // namespace cluster

namespace barrier {
TSL_INLINE void init(uint at, uint arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible: to other threads of the block after a barrier, to other blocks after one of the cluster.
TSL_INLINE void publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TSL_INLINE void expect(uint at, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
TSL_INLINE void arrive(uint at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
TSL_INLINE void wait(uint at, uint parity) {
  asm volatile(
      "{\n.reg .pred done;\nwaiting:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra waiting;\n}" ::"r"(at), "r"(parity)
      : "memory");
}
}  // namespace barrier

#endif

}  // namespace tsl
