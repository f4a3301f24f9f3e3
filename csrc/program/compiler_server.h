// The client's side of Note [a compiler that forks]: one server for this process, started at the first need. Another one takes
// its place if it has died or its surroundings changed; a fork of this process has its own.
#pragma once

#include <optional>

#include "common/process.h"

namespace torch_slang {

// As run_process would: argv[0] is torch-slangc, and the request has no environment of its own. None: no server answered, so
// the program has to be run. Interruptible, and safe from any thread.
std::optional<ProcessResult> run_by_server(const ProcessRequest& request);

}  // namespace torch_slang
