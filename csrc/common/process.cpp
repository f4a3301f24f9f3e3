#include "common/process.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/environment.h"
#include "common/interrupts.h"
#include "common/start_program.h"

namespace torch_slang {

ProcessResult run_process(const ProcessRequest& request) {
  check_interrupts();
  auto channels = make_channels(request.input);
  Started started = channels ? start_program(request, *std::move(channels)) : Started{nullptr, std::strerror(errno)};
  if (started.child != nullptr) return started.child->finish(request);
  ProcessResult result;
  result.timeout = request.timeout;
  result.start_error = std::move(started.problem);
  return result;
}

std::chrono::seconds compile_time_limit() {
  return std::chrono::seconds(environment_integer("TORCH_SLANG_COMPILE_TIMEOUT", 600));
}

}  // namespace torch_slang
