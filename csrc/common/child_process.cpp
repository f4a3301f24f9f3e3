#include "common/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "common/interrupts.h"

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// How long to wait before looking whether the child is gone while something else still holds its output open.
constexpr int kTickMilliseconds = static_cast<int>(kInterruptTick.count());

constexpr int kEndedBySignal = 128;  // a shell's status is this and the number of the signal that ended its child

// Reads the available bytes; closes the descriptor at the end of the stream.
void take_output(Descriptor& from, std::string& to) {
  char buffer[1 << 16];
  const ssize_t got = ::read(from.get(), buffer, sizeof(buffer));
  if (got > 0) {
    to.append(buffer, static_cast<size_t>(got));
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.close();
  }
}

void take_status(int status, bool of_guard, ProcessResult& result) {
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (!of_guard || result.status <= kEndedBySignal || result.status > kEndedBySignal + NSIG) return;
  result.signal = result.status - kEndedBySignal;
  result.status = -1;
}

}  // namespace

ChildProcess::ChildProcess(pid_t child, Descriptor output, Descriptor error, bool has_guard)
    : child_(child), output_(std::move(output)), error_(std::move(error)), has_guard_(has_guard) {}

ChildProcess::~ChildProcess() {
  kill();
  reap();
}

void ChildProcess::kill() const {
  if (child_ > 0) ::kill(-child_, SIGKILL);
}

std::optional<int> ChildProcess::reap() {
  if (child_ <= 0) return std::nullopt;
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  const bool known = ended == child_;  // else the process ignores SIGCHLD, or someone else waits for all children
  child_ = 0;
  return known ? std::optional(status) : std::nullopt;
}

bool ChildProcess::has_exited() const {
  siginfo_t facts{};
  // WNOWAIT leaves it a zombie, so that its id, and its group's, cannot be given to another yet.
  return ::waitid(P_PID, static_cast<id_t>(child_), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 || facts.si_pid != 0;
}

ProcessResult ChildProcess::finish(const ProcessRequest& request) {
  ProcessResult result;
  result.timeout = request.timeout;
  watch(request, result);
  if (const auto status = reap()) take_status(*status, has_guard_, result);
  return result;
}

void ChildProcess::watch(const ProcessRequest& request, ProcessResult& result) {
  const auto deadline = Clock::now() + result.timeout;
  const bool limited = result.timeout.count() > 0;
  while (!result.timed_out) {
    check_interrupts();
    const bool open = output_.is_open() || error_.is_open();
    const bool came = wait_for_output(request, result, open ? kTickMilliseconds : 1);
    if (!came && has_exited()) break;
    if (limited && Clock::now() >= deadline) result.timed_out = !has_exited();
    if (limited && Clock::now() >= deadline) break;
  }
  kill();  // on time-out all, else helpers of a driver that died
  while ((output_.is_open() || error_.is_open()) && wait_for_output(request, result, kTickMilliseconds)) {
  }
}

// One round of waiting for output; true if anything came or ended.
bool ChildProcess::wait_for_output(const ProcessRequest& request, ProcessResult& result, int milliseconds) {
  pollfd watched[2] = {{output_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}};  // poll skips negative descriptors
  if (::poll(watched, 2, milliseconds) <= 0) return false;
  if (watched[0].revents != 0) {
    take_output(output_, result.output);
    if (request.on_output) request.on_output(result.output);
  }
  if (watched[1].revents != 0) take_output(error_, result.error);
  return true;
}

}  // namespace torch_slang
