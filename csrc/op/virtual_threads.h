// How many threads of a launch a GPU thread should run: Note [virtual threads] in prelude/device_loop.h.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace torch_slang {

// `at_once`: threads that the device runs at the same time. None are worth while where that would leave some idle.
// `bytes`: that one thread of the launch reads. `lanes`: threads along x that read whole words together (Note [words] in
// prelude/words.h); 1 if there are no words. `shared_axis`: along which threads share elements of gradients (Note [shared
// elements] in prelude/shared.h), or -1.
VirtualThreads virtual_threads(const LaunchShape& shape, uint64_t at_once, int64_t bytes, int lanes, int shared_axis);

// For tests: whether launches of any size get virtual threads, as if they filled the device. Returns what was set before.
bool set_virtual_threads_for_all(bool value);

}  // namespace torch_slang
