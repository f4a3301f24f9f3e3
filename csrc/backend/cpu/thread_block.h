// Runs the threads of one block that meet at barriers and in wave operations, each on a fiber of its own, all on the
// calling OS thread. Implements the services of prelude/host_threads.h; see Note [host waves] there for their meaning.
// One ThreadBlock serves one OS thread and any number of blocks, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/fiber.h"
#include "prelude/host_threads.h"

namespace torch_slang {

// One thread of a kernel, from the compiled code: runs it to its end. Throws nothing.
using HostThreadEntry = void (*)(const void* args, TslHostThread* self, const unsigned block_index[3],
                                 const unsigned thread_index[3]);

struct BlockWork {
  HostThreadEntry entry = nullptr;
  const void* args = nullptr;
  uint32_t block_size[3] = {1, 1, 1};
  uint32_t block_index[3] = {0, 0, 0};
};

class ThreadBlock {
 public:
  explicit ThreadBlock(size_t stack_size);
  ~ThreadBlock();

  // Empty, or why the threads could not all end, as the rest of a sentence about the block. Those that wait are dropped.
  std::string run(const BlockWork& work);

  // Made at the OS thread's first use, gone with it.
  static ThreadBlock& of_this_thread();

 private:
  struct Lane;
  struct Wave {
    // One bit for each lane. A live lane is in exactly one of the three other sets, but for the one that runs.
    uint32_t live = 0;
    uint32_t ready = 0;
    uint32_t exchanging = 0;
    uint32_t at_barrier = 0;
  };

  static void lane_body(void* lane);
  static void barrier(TslHostThread* self);
  static unsigned exchange(TslHostThread* self, unsigned mask, unsigned operation, const void* value, unsigned size,
                           void* all_values);

  void reserve(size_t count);
  void begin(const BlockWork& work);
  void leave(Lane& lane);
  void give_way(Lane& lane);
  FiberContext& next_context();
  bool settle(Wave& wave);
  void complete_masked_meetings(Wave& wave);
  bool complete_meeting_of(Wave& wave, const Lane& lane);
  bool complete_unmasked_meeting(Wave& wave);
  void meet(Wave& wave, uint32_t members);
  bool release_barrier();
  std::string describe_deadlock() const;
  Lane* lanes_of(const Wave& wave) const;
  Wave& wave_of(const Lane& lane);

  size_t stack_size_;
  std::vector<std::unique_ptr<FiberStacks>> stacks_;
  std::unique_ptr<Lane[]> lanes_;
  size_t prepared_ = 0;            // lanes that have a stack
  std::vector<Wave> waves_;
  std::unique_ptr<unsigned char[]> values_;  // of a meeting
  FiberContext scheduler_;         // the OS thread's own stack, in run()
  BlockWork work_;
  uint32_t thread_count_ = 0;
  uint32_t live_ = 0;              // threads that have not left
  uint32_t waves_with_work_ = 0;   // one bit for each wave that may have a lane to run
  bool deadlocked_ = false;
};

}  // namespace torch_slang
