// Starting a program with given standard streams.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/child_process.h"
#include "common/descriptor.h"
#include "common/process_request.h"

namespace torch_slang {

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

// What the child's standard input reads, and both ends of the pipes of its standard output and error.
struct Channels {
  Descriptor input;
  Pipe output;
  Pipe error;
};
// Nothing: `errno` says why. Standard input is a file in memory, not a pipe: nothing needs feeding, and no SIGPIPE comes if the child
// reads none.
std::optional<Channels> make_channels(const std::string& input);

// This process's, changed as the request says: NAME=VALUE.
std::vector<std::string> merged_environment(const ProcessRequest& request);

struct Started {
  std::unique_ptr<ChildProcess> child;  // or:
  std::string problem;
};
// With the argv, environment and has_helpers of the request. The system ends the child when the calling thread ends.
Started start_program(const ProcessRequest& request, Channels channels);

}  // namespace torch_slang
