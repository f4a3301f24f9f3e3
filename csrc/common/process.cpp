#include "common/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/files.h"

extern char** environ;

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// How long to wait before looking whether the child is gone while something else still holds its output open.
constexpr int kTickMilliseconds = 20;

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  bool open() const { return value_ >= 0; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

// Never 0, 1 or 2: those are overwritten in the child, and may be free in a parent that closed its own.
Descriptor above_standard(Descriptor descriptor) {
  if (!descriptor.open() || descriptor.get() > 2) return descriptor;
  return Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 3));
}

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{above_standard(Descriptor(ends[0])), above_standard(Descriptor(ends[1]))};
  if (!pipe.read_end.open() || !pipe.write_end.open()) return std::nullopt;
  return pipe;
}

// Standard input is a file in memory, not a pipe: nothing needs feeding, and no SIGPIPE comes if the child reads none.
Descriptor make_input(const std::string& text) {
  if (text.empty()) return above_standard(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  Descriptor file = above_standard(Descriptor(::memfd_create("torch_slang_input", MFD_CLOEXEC)));
  for (size_t done = 0; file.open() && done < text.size();) {
    const ssize_t written = ::pwrite(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) return Descriptor();
    if (written > 0) done += static_cast<size_t>(written);
  }
  return file;
}

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& addition : additions) replaced = replaced || addition.first == name;
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs, prepared by the parent: between vfork and exec nothing may allocate or take a lock.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  int input;
  int output;
  int error;
  volatile int problem;  // errno of what failed, seen by the parent through the shared memory
};

// Note [vfork]: fork would copy the page tables of a process that may map hundreds of gigabytes. vfork shares the
// parent's memory until exec, so the child makes system calls only. The parent blocked all signals: a handler of the
// parent must not run in the child.
[[noreturn]] void execute_child(ChildPlan& plan) {
  ::setpgid(0, 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  const bool ready = ::dup2(plan.input, 0) == 0 && ::dup2(plan.output, 1) == 1 && ::dup2(plan.error, 2) == 2;
  if (ready) {
#ifdef SYS_close_range
    const bool closed = ::syscall(SYS_close_range, 3U, ~0U, 0U) == 0;
#else
    const bool closed = false;
#endif
    if (!closed) {
      const long limit = ::sysconf(_SC_OPEN_MAX);
      for (int other = 3; other < limit; ++other) ::close(other);
    }
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(plan.program, plan.argv, plan.envp);
  }
  plan.problem = errno;
  ::_exit(127);
}

pid_t start_child(ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::vfork();
  if (child == 0) execute_child(plan);
  const int saved = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = saved;
  return child;
}

// Takes what has come; closes the descriptor at the end of the stream.
void take_output(Descriptor& from, std::string& to) {
  char buffer[1 << 16];
  const ssize_t got = ::read(from.get(), buffer, sizeof(buffer));
  if (got > 0) {
    to.append(buffer, static_cast<size_t>(got));
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.close();
  }
}

bool has_exited(pid_t child) {
  siginfo_t facts{};
  // WNOWAIT leaves it a zombie, so that its id, and its group's, cannot be given to another yet.
  return ::waitid(P_PID, static_cast<id_t>(child), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 || facts.si_pid != 0;
}

// One round of waiting for output; true if anything came or ended.
bool wait_for_output(Descriptor& output, Descriptor& error, ProcessResult& result, int milliseconds) {
  pollfd watched[2] = {{output.get(), POLLIN, 0}, {error.get(), POLLIN, 0}};  // poll skips negative descriptors
  if (::poll(watched, 2, milliseconds) <= 0) return false;
  if (watched[0].revents != 0) take_output(output, result.output);
  if (watched[1].revents != 0) take_output(error, result.error);
  return true;
}

void watch_child(pid_t child, Descriptor output, Descriptor error, ProcessResult& result) {
  const auto deadline = Clock::now() + result.timeout;
  const bool limited = result.timeout.count() > 0;
  while (!result.timed_out) {
    const bool open = output.open() || error.open();
    const bool came = wait_for_output(output, error, result, open ? kTickMilliseconds : 1);
    if (!came && has_exited(child)) break;
    if (limited && Clock::now() >= deadline) result.timed_out = !has_exited(child);
    if (limited && Clock::now() >= deadline) break;
  }
  ::kill(-child, SIGKILL);  // whoever is left of its group: on time-out all, else helpers of a driver that died
  while ((output.open() || error.open()) && wait_for_output(output, error, result, kTickMilliseconds)) {
  }
}

void take_status(pid_t child, ProcessResult& result) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended != child) return;  // the process ignores SIGCHLD, or someone else waits for all children
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
}

ProcessResult not_started(const std::string& reason) {
  ProcessResult result;
  result.start_error = reason;
  return result;
}

}  // namespace

ProcessResult run_process(const ProcessRequest& request) {
  if (request.argv.empty()) return not_started("no program given");
  const auto program = find_program(request.argv[0]);
  if (!program) return not_started(request.argv[0] + " was not found or may not be executed");

  auto output = make_pipe();
  auto error = make_pipe();
  const Descriptor input = make_input(request.input);
  if (!output || !error || !input.open()) return not_started(std::strerror(errno));

  std::vector<std::string> arguments = request.argv;
  std::vector<std::string> variables = merged_environment(request.environment);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  ChildPlan plan{
      program->c_str(), argv.data(), envp.data(), input.get(), output->write_end.get(), error->write_end.get(), 0};

  const pid_t child = start_child(plan);
  if (child < 0) return not_started(std::strerror(errno));
  ProcessResult result;
  result.timeout = request.timeout;
  output->write_end.close();
  error->write_end.close();
  if (plan.problem == 0) watch_child(child, std::move(output->read_end), std::move(error->read_end), result);
  take_status(child, result);
  if (plan.problem != 0) result.start_error = std::strerror(plan.problem);
  return result;
}

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
