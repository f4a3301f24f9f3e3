#include "backend/cpu/thread_block.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <bit>
#include <cstring>

namespace torch_slang {

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostWaves = kMostThreads / kTslWaveSize;
static_assert(kMostWaves <= 32, "waves_with_work_ has one bit for each wave");

// The work of every lane of `mask`, lowest first.
template <class Action>
void for_each_lane(uint32_t mask, const Action& action) {
  for (; mask != 0; mask &= mask - 1) action(static_cast<unsigned>(std::countr_zero(mask)));
}

uint32_t first_lanes(uint32_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

}  // namespace

struct ThreadBlock::Lane : TslHostThread {
  ThreadBlock* owner = nullptr;
  FiberContext context;
  uint32_t linear_index = 0;
  uint32_t thread_index[3] = {0, 0, 0};
  // The exchange that it waits for while it is in its wave's `exchanging`.
  unsigned mask = 0;  // 0: whoever is here
  unsigned operation = 0;
  unsigned size = 0;
  const void* value = nullptr;
  void* all_values = nullptr;
  unsigned meeting = 0;  // the result

  bool meets(const Lane& other) const { return operation == other.operation && size == other.size; }
};

ThreadBlock::ThreadBlock(size_t stack_size)
    : stack_size_(stack_size),
      lanes_(new Lane[kMostThreads]),
      waves_(kMostWaves),
      values_(new unsigned char[kTslWaveSize * kTslMaxExchange]) {}

ThreadBlock::~ThreadBlock() = default;

ThreadBlock& ThreadBlock::of_this_thread() {
  // By thread: a worker of torch's pool is given a range of blocks and no memory of its own, fibers stay on the thread that
  // made them, and their stacks are kept from launch to launch.
  thread_local ThreadBlock block(fiber_stack_size());
  return block;
}

std::string ThreadBlock::run(const BlockWork& work) {
  begin(work);
  scheduler_ = FiberContext::of_this_thread();
  switch_fiber(scheduler_, next_context());
  if (!deadlocked_) return {};
  std::string reason = describe_deadlock();
  prepared_ = 0;
  stacks_.clear();
  return reason;
}

void ThreadBlock::begin(const BlockWork& work) {
  work_ = work;
  thread_count_ = live_ = work.block_size[0] * work.block_size[1] * work.block_size[2];
  TORCH_INTERNAL_ASSERT(thread_count_ >= 1 && thread_count_ <= kMostThreads, "a block of ", thread_count_, " threads");
  reserve(thread_count_);
  deadlocked_ = false;
  uint32_t wave_count = (thread_count_ + kTslWaveSize - 1) / kTslWaveSize;
  waves_with_work_ = first_lanes(wave_count);
  for (uint32_t w = 0; w < wave_count; ++w) {
    uint32_t all = first_lanes(thread_count_ - w * kTslWaveSize);
    waves_[w] = {all, all, 0, 0};
  }
  uint32_t linear = 0;
  for (uint32_t z = 0; z < work.block_size[2]; ++z) {
    for (uint32_t y = 0; y < work.block_size[1]; ++y) {
      for (uint32_t x = 0; x < work.block_size[0]; ++x, ++linear) {
        uint32_t (&index)[3] = lanes_[linear].thread_index;
        index[0] = x, index[1] = y, index[2] = z;
      }
    }
  }
}

// Fibers are kept from block to block: each runs lane_body's endless loop, once around for each block.
void ThreadBlock::reserve(size_t count) {
  if (count <= prepared_) return;
  auto stacks = std::make_unique<FiberStacks>(count - prepared_, stack_size_);
  for (size_t k = 0; k < stacks->count(); ++k) {
    Lane& lane = lanes_[prepared_ + k];
    lane.owner = this;
    lane.linear_index = static_cast<uint32_t>(prepared_ + k);
    lane.lane = lane.linear_index % kTslWaveSize;
    lane.barrier = &ThreadBlock::barrier;
    lane.exchange = &ThreadBlock::exchange;
    lane.context = stacks->start(k, &ThreadBlock::lane_body, &lane);
  }
  stacks_.push_back(std::move(stacks));
  prepared_ = count;
}

void ThreadBlock::lane_body(void* pointer) {
  Lane& lane = *static_cast<Lane*>(pointer);
  ThreadBlock& block = *lane.owner;
  for (;;) {
    block.work_.entry(block.work_.args, &lane, block.work_.block_index, lane.thread_index);
    block.leave(lane);
  }
}

ThreadBlock::Wave& ThreadBlock::wave_of(const Lane& lane) { return waves_[lane.linear_index / kTslWaveSize]; }

ThreadBlock::Lane* ThreadBlock::lanes_of(const Wave& wave) const {
  return &lanes_[static_cast<size_t>(&wave - waves_.data()) * kTslWaveSize];
}

void ThreadBlock::leave(Lane& lane) {
  Wave& wave = wave_of(lane);
  uint32_t bit = 1u << lane.lane;
  wave.live &= ~bit;
  wave.ready &= ~bit;
  --live_;
  complete_masked_meetings(wave);  // those that waited for this lane alone
  give_way(lane);                  // returns when the next block begins
}

void ThreadBlock::barrier(TslHostThread* self) {
  Lane& lane = *static_cast<Lane*>(self);
  Wave& wave = lane.owner->wave_of(lane);
  wave.ready &= ~(1u << lane.lane);
  wave.at_barrier |= 1u << lane.lane;
  lane.owner->give_way(lane);
}

unsigned ThreadBlock::exchange(TslHostThread* self, unsigned mask, unsigned operation, const void* value, unsigned size,
                               void* all_values) {
  Lane& lane = *static_cast<Lane*>(self);
  Wave& wave = lane.owner->wave_of(lane);
  uint32_t bit = 1u << lane.lane;
  lane.mask = mask == 0 ? 0 : mask | bit;
  lane.operation = operation;
  lane.size = size;
  lane.value = value;
  lane.all_values = all_values;
  wave.ready &= ~bit;
  wave.exchanging |= bit;
  if (mask != 0) lane.owner->complete_meeting_of(wave, lane);
  lane.owner->give_way(lane);
  return lane.meeting;
}

void ThreadBlock::give_way(Lane& lane) {
  FiberContext& next = next_context();
  if (&next != &lane.context) switch_fiber(lane.context, next);
}

// Who runs next: the lowest ready lane of the lowest wave that has one, so that the order is the same in every run. The
// scheduler's own context once every thread has left or none can go on.
FiberContext& ThreadBlock::next_context() {
  for (;;) {
    while (waves_with_work_ != 0) {
      Wave& wave = waves_[static_cast<size_t>(std::countr_zero(waves_with_work_))];
      if (settle(wave)) return lanes_of(wave)[std::countr_zero(wave.ready)].context;
      waves_with_work_ &= waves_with_work_ - 1;
    }
    if (live_ == 0) return scheduler_;
    if (!release_barrier()) {
      deadlocked_ = true;
      return scheduler_;
    }
  }
}

// Whether the wave has a lane that can run. Meetings never cross waves, so only a barrier can wake a wave without one.
bool ThreadBlock::settle(Wave& wave) { return wave.ready != 0 || complete_unmasked_meeting(wave); }

bool ThreadBlock::release_barrier() {
  uint32_t arrived = 0;
  uint32_t wave_count = (thread_count_ + kTslWaveSize - 1) / kTslWaveSize;
  for (uint32_t w = 0; w < wave_count; ++w) arrived += static_cast<uint32_t>(std::popcount(waves_[w].at_barrier));
  if (arrived != live_) return false;
  for (uint32_t w = 0; w < wave_count; ++w) {
    waves_[w].ready = waves_[w].at_barrier;
    waves_[w].at_barrier = 0;
    if (waves_[w].ready != 0) waves_with_work_ |= 1u << w;
  }
  return true;
}

// A lane left: any of the meetings that wait may have been waiting for it alone.
void ThreadBlock::complete_masked_meetings(Wave& wave) {
  const Lane* lanes = lanes_of(wave);
  for_each_lane(wave.exchanging, [&](unsigned k) {
    bool still_waits = (wave.exchanging >> k & 1) != 0;
    if (still_waits && lanes[k].mask != 0) complete_meeting_of(wave, lanes[k]);
  });
}

// `lane` waits with a mask. Masks are compared among the lanes that are left: whoever names a lane that is gone means the
// same as who does not.
bool ThreadBlock::complete_meeting_of(Wave& wave, const Lane& lane) {
  uint32_t members = lane.mask & wave.live;
  if ((wave.exchanging & members) != members) return false;
  const Lane* lanes = lanes_of(wave);
  for (uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const Lane& other = lanes[std::countr_zero(rest)];
    if (other.mask == 0 || (other.mask & wave.live) != members || !other.meets(lane)) return false;
  }
  meet(wave, members);
  return true;
}

bool ThreadBlock::complete_unmasked_meeting(Wave& wave) {
  const Lane* lanes = lanes_of(wave);
  const Lane* first = nullptr;
  for_each_lane(wave.exchanging, [&](unsigned k) {
    if (lanes[k].mask == 0 && (first == nullptr || lanes[k].operation < first->operation)) first = &lanes[k];
  });
  if (first == nullptr) return false;
  uint32_t members = 0;
  for_each_lane(wave.exchanging, [&](unsigned k) {
    if (lanes[k].mask == 0 && lanes[k].meets(*first)) members |= 1u << k;
  });
  meet(wave, members);
  return true;
}

void ThreadBlock::meet(Wave& wave, uint32_t members) {
  Lane* lanes = lanes_of(wave);
  const size_t size = lanes[std::countr_zero(members)].size;
  // All are read before any is written: a lane's value may lie inside its result.
  unsigned char* values = values_.get();
  for_each_lane(members, [&](unsigned k) { std::memcpy(values + k * size, lanes[k].value, size); });
  for_each_lane(members, [&](unsigned k) {
    auto* result = static_cast<unsigned char*>(lanes[k].all_values);
    for (uint32_t rest = members; rest != 0;) {  // runs of neighbours at once
      auto first = static_cast<unsigned>(std::countr_zero(rest));
      auto count = static_cast<unsigned>(std::countr_one(rest >> first));
      std::memcpy(result + first * size, values + first * size, count * size);
      rest &= ~(first_lanes(count) << first);
    }
    lanes[k].meeting = members;
  });
  wave.exchanging &= ~members;
  wave.ready |= members;
}

// Some lane waits in an exchange with a mask then: whatever else lanes wait for comes to an end.
std::string ThreadBlock::describe_deadlock() const {
  uint32_t at_barrier = 0;
  uint32_t exchanging = 0;
  const Lane* example = nullptr;
  for (uint32_t k = 0; k < thread_count_; ++k) {
    const Wave& wave = waves_[k / kTslWaveSize];
    uint32_t bit = 1u << (k % kTslWaveSize);
    at_barrier += (wave.at_barrier & bit) != 0;
    exchanging += (wave.exchanging & bit) != 0;
    if (example == nullptr && (wave.exchanging & bit) != 0) example = &lanes_[k];
  }
  TORCH_INTERNAL_ASSERT(example != nullptr, "threads of a block stopped without waiting for each other");
  const uint32_t* thread = example->thread_index;
  return c10::str("its threads wait for each other forever: ", exchanging, " in wave operations, ", at_barrier,
                  " at a barrier; thread (", thread[0], ", ", thread[1], ", ", thread[2],
                  ") waits for lanes of its wave that take no part in the same operation with the ", "same mask");
}

}  // namespace torch_slang
