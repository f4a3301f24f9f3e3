// How many threads of a launch a GPU thread should run: Note [virtual threads] in prelude/device_loop.h.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace torch_slang {

// `at_once`: threads that the device runs at the same time. None are worth while where that would leave some idle.
// `bytes`: that one thread of the launch reads.
VirtualThreads virtual_threads(const LaunchShape& shape, uint64_t at_once, int64_t bytes);

}  // namespace torch_slang
