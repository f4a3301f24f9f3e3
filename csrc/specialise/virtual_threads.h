// How many threads of a launch a GPU thread should run: Note [virtual threads] in prelude/device_loop.h.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace torch_slang {

// What decides which virtual threads a launch may have, and which are likely to be fast.
struct ThreadFacts {
  LaunchShape shape;
  uint64_t bounds[3] = {0, 0, 0};  // threads along each axis that have something to do
  // Threads that the device runs at the same time: virtual ones are not worth while where some would be idle. 0: it has
  // no virtual ones.
  uint64_t at_once = 0;
  int64_t bytes = 0;  // that one thread of the launch reads
  int lanes =
      1;  // threads along x that have whole vectors together (Note [vector accesses] in prelude/vector_access.h); 1: there are no vectors
  bool is_flat = false;  // as in VirtualThreads
  // Lanes that add to the same elements of gradients may sum first (Note [wave sums] in prelude/wave_sums.h), or must not.
  bool may_sum = false, must_add_apart = false;
  bool may_tile = false;  // Note [tiled waves] in prelude/device_loop.h: if the block consists of tiles
  bool runs_one = false;  // threads meet at barriers or in wave operations, so a GPU thread runs one of them
  bool may_be_measured = true;  // not under vmap: another number of samples must not call for another kernel
  int shared_axis = -1;  // along which threads share elements of gradients (Note [shared elements] in prelude/shared.h)
};

// What the text of a kernel says of the virtual threads that it may have.
struct TextFacts {
  size_t size = 0;
  bool has_waves = false, has_barriers = false;  // threads meet
  bool multiplies = false;  // products of matrices, whose threads are as they are written
  bool has_samples = false;  // of vmap
  bool is_checked = false;  // in debug mode
  bool has_bounds = false;  // which threads have something to do is known
};

// The virtual threads that a kernel with this text gets where `wanted` are the ones that its launch should have.
VirtualThreads allowed_threads(const VirtualThreads& wanted, const TextFacts& text);

// The choice that has been the best for most kernels.
VirtualThreads likely_threads(const ThreadFacts& facts);

// Whether the launch is so large that trying others tells something.
bool is_worth_measuring(const ThreadFacts& facts);

// Those that differ from these by one step.
std::vector<VirtualThreads> next_to(const ThreadFacts& facts, const VirtualThreads& threads);

// From `start`, goes on to the best of those next to the best so far until none of them is clearly better, and returns it.
// `seconds`: for each of those given, how long a call takes, or nothing that is above zero if it cannot be told; the very
// first is `start`.
VirtualThreads fastest_threads(const ThreadFacts& facts, const VirtualThreads& start,
                               c10::function_ref<std::vector<double>(const std::vector<VirtualThreads>&)> seconds);

// "lanes=4, groups=2, repeats=1", and ", apart=1" if lanes do not sum, ", tiles=1" if waves are tiles.
std::string describe(const VirtualThreads& threads);
// From such a text; none if it is not one, or not of virtual threads that this launch may have.
std::optional<VirtualThreads> parse_threads(const ThreadFacts& facts, const std::string& text);

// For tests: whether launches of any size get virtual threads, as if they filled the device. Returns the setting before.
bool set_virtual_threads_for_all(bool value);
// For tests: whether lanes that may sum do so. Unless that is measured, no virtual threads are. Returns the setting before.
enum class WaveSums { Measured, Always, Never };
WaveSums set_wave_sums(WaveSums value);
WaveSums wave_sums_setting();
// For tests: whether waves that may be tiled are, without a measurement. Returns the setting before.
bool set_tiled_waves_for_all(bool value);

}  // namespace torch_slang
