// A child process until its end: for common/process.h and common/fork_server.h, which start them.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/descriptor.h"
#include "common/process_request.h"

namespace torch_slang {

// It leads a process group of its own, which is killed when its owner goes.
class ChildProcess {
 public:
  // The ends to read of its standard output and error, if they are pipes. `has_guard`: it is the shell of
  // Note [death of the parent].
  ChildProcess(pid_t child, Descriptor output, Descriptor error, bool has_guard = false);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Until it and its group have ended. Interruptible. Once.
  ProcessResult finish(const ProcessRequest& request);

 private:
  void watch(const ProcessRequest& request, ProcessResult& result);
  bool wait_for_output(const ProcessRequest& request, ProcessResult& result, int milliseconds);
  bool has_exited() const;
  void kill() const;
  std::optional<int> reap();

  pid_t child_;
  Descriptor output_, error_;
  bool has_guard_;
};

}  // namespace torch_slang
