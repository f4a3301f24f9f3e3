#include "common/process_request.h"

#include <cstring>

namespace torch_slang {

std::string ProcessResult::how_it_ended() const {
  if (!start_error.empty()) return "could not be started (" + start_error + ")";
  if (timed_out) {
    std::string seconds = std::to_string(static_cast<double>(timeout.count()) / 1000.0);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') seconds.pop_back();
    return "did not finish in " + seconds + " s and was killed";
  }
  if (signal != 0) return "was ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  if (status < 0) return "ended, but its exit status was lost (does the process ignore SIGCHLD?)";
  return "exited with status " + std::to_string(status);
}

}  // namespace torch_slang
