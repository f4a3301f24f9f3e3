// What program is to run, and what became of it: for common/process.h.
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

}  // namespace torch_slang
