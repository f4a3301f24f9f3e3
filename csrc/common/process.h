// Running a program: argument vector, never a shell's text. Safe in a parent with many threads (the child only executes, and
// inherits none of the parent's other files). The child leads a process group of its own, and none of that group outlives
// the call: on time-out, and when the wait is interrupted, the group is killed.
//
// Note [death of the parent]
//   A parent that is killed cannot clean up: the system then sends its child a signal (PR_SET_PDEATHSIG), but not the
//   child's own children, and a C++ compiler is a driver that has such. So a shell stands between, whose script is
//   constant: the signal makes it kill the group. What the driver ends with, the shell ends with.
#pragma once

#include <chrono>

#include "common/process_request.h"

namespace torch_slang {

// Interruptible: common/interrupts.h.
ProcessResult run_process(const ProcessRequest& request);

// How long any one compiler may run: TORCH_SLANG_COMPILE_TIMEOUT seconds, 600 if nothing is said; 0: as long as it likes.
std::chrono::seconds compile_time_limit();

}  // namespace torch_slang
