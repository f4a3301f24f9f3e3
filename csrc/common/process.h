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
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace torch_slang {

struct ProcessRequest {
  std::vector<std::string> argv;  // argv[0] is a path, or a name that is looked up in PATH
  std::string input;  // for its standard input, which then ends
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to, or in place of, the parent's
  std::chrono::milliseconds timeout{0};  // 0: none
  // Is given all standard output so far, whenever more has come. If it throws, the child is killed.
  std::function<void(const std::string& output)> on_output;
  bool has_helpers = false;  // it starts programs of its own, as a compiler driver does: Note [death of the parent]
};

struct ProcessResult {
  std::string output;  // all of its standard output
  std::string error;  // all of its standard error
  int status = -1;  // exit status, if it exited
  int signal = 0;  // the signal that ended it, or 0
  bool timed_out = false;  // it was killed by us (signal is then SIGKILL)
  std::string start_error;  // not empty: it could not be started, and why

  bool succeeded() const { return start_error.empty() && !timed_out && signal == 0 && status == 0; }
  // "exited with status 1", "was ended by signal 11 (Segmentation fault)", "did not finish in 30 s and was killed",
  // "could not be started (No such file or directory)".
  std::string how_it_ended() const;

  std::chrono::milliseconds timeout{0};  // as asked, for the message
};

// Interruptible: common/interrupts.h.
ProcessResult run_process(const ProcessRequest& request);

// How long any one compiler may run: TORCH_SLANG_COMPILE_TIMEOUT seconds, 120 if nothing is said; 0: as long as it likes.
std::chrono::seconds compile_time_limit();

}  // namespace torch_slang
