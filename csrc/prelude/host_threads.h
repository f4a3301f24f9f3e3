// What the threads of a block ask of the CPU back end when they must meet: barriers and wave operations. The back end
// (csrc/backend/cpu) runs each thread of such a block as a fiber and implements these services; the host prelude
// (host_meet.h, wave_primitives_host.h) is written over them alone. Plain C++ without includes: the run-time includes this file,
// and its text stands in front of every host device source.
//
// Note [host waves]
//   A wave is 32 threads with consecutive linear indices in their block (x fastest), the last one possibly shorter; a
//   thread's lane is that index modulo 32. Lanes meet by *mask*, not by place in the text, as the hardware's *.sync
//   instructions do (PTX: wait until all non-exited lanes of membermask have executed the same operation with the same
//   membermask). Slang's text depends on that: the two arms of an `if` join their lanes again through a ballot in each arm.
//     - exchange(mask != 0): completes once every lane of `mask` that exists and has not left the kernel waits in an exchange with
//       the same `mask` and `operation`. Lanes that left or never existed count as absent. The caller's own lane is
//       always part of its mask.
//     - exchange(mask == 0): "whoever is here": completes once every live lane of the wave waits (in an exchange or at a
//       barrier) and nothing else can complete; the lanes that wait with mask 0 and the same `operation` form one
//       meeting, the lowest `operation` first.
//     - barrier(): completes once every live thread of the block waits in a barrier (lanes that left count as arrived).
//   If nothing can complete while threads wait, that is the kernel's error (a deadlock on a GPU): a LaunchError.
#pragma once

enum { kTslWaveSize = 32, kTslMaxExchange = 128 };  // lanes a wave; most bytes a lane deposits in one exchange

struct TslHostThread {
  unsigned lane;  // 0..31
  // Returns once all live threads of the block have called it. Memory written before it is seen by all after it.
  void (*barrier)(TslHostThread* self);
  // Deposits `size` bytes (1..kTslMaxExchange) at `value` and waits for the meeting described above; then writes the value of each
  // lane of the meeting to `all_values + lane * size` (other lanes' places are left alone) and returns the meeting's mask, which
  // holds the caller's lane. All lanes of one meeting pass the same `size`. `value` may lie inside `all_values`.
  unsigned (*exchange)(TslHostThread* self, unsigned mask, unsigned operation, const void* value, unsigned size, void* all_values);
};
