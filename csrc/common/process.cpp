#include "common/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/descriptor.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/interrupts.h"

extern char** environ;

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// How long to wait before looking whether the child is gone while something else still holds its output open.
constexpr int kTickMilliseconds = static_cast<int>(kInterruptTick.count());

// Note [death of the parent]. A job in the background has no standard input of its own, so it is handed on.
constexpr const char* kShell = "/bin/sh";
constexpr const char* kGuard = "exec 3<&0; trap 'kill -9 0' TERM; \"$@\" <&3 3<&- & exec 3<&-; wait $!";
constexpr int kEndedBySignal = 128;  // a shell's status is this and the number of the signal that ended its child

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{above_standard(Descriptor(ends[0])), above_standard(Descriptor(ends[1]))};
  if (!pipe.read_end.is_open() || !pipe.write_end.is_open()) return std::nullopt;
  return pipe;
}

// Standard input is a file in memory, not a pipe: nothing needs feeding, and no SIGPIPE comes if the child reads none.
Descriptor make_input(const std::string& text) {
  if (text.empty()) return above_standard(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  Descriptor file = file_in_memory("torch_slang_input");
  const bool is_ready = write_all(file, text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return is_ready ? std::move(file) : Descriptor();
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
  int signal_of_death;  // the parent's
  pid_t parent;
  volatile int problem;  // errno of what failed, seen by the parent through the shared memory
};

// Note [vfork]: fork would copy the page tables of a process that may map hundreds of gigabytes. vfork shares the
// parent's memory until exec, so the child makes system calls only. The parent blocked all signals: a handler of the
// parent must not run in the child.
[[noreturn]] void execute_child(ChildPlan& plan) {
  // A parent that died before it could be watched has left its child to another.
  const bool guarded = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, plan.signal_of_death) == 0;
  if (guarded && ::getppid() != plan.parent) ::_exit(127);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  const bool ready = guarded && ::dup2(plan.input, 0) == 0 && ::dup2(plan.output, 1) == 1 && ::dup2(plan.error, 2) == 2;
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

bool has_exited(pid_t child) {
  siginfo_t facts{};
  // WNOWAIT leaves it a zombie, so that its id, and its group's, cannot be given to another yet.
  return ::waitid(P_PID, static_cast<id_t>(child), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 || facts.si_pid != 0;
}

// One round of waiting for output; true if anything came or ended.
bool wait_for_output(Descriptor& output, Descriptor& error, const ProcessRequest& request, ProcessResult& result,
                     int milliseconds) {
  pollfd watched[2] = {{output.get(), POLLIN, 0}, {error.get(), POLLIN, 0}};  // poll skips negative descriptors
  if (::poll(watched, 2, milliseconds) <= 0) return false;
  if (watched[0].revents != 0) {
    take_output(output, result.output);
    if (request.on_output) request.on_output(result.output);
  }
  if (watched[1].revents != 0) take_output(error, result.error);
  return true;
}

// Kills whoever is left of the child's group, and waits for the child.
class Group {
 public:
  explicit Group(pid_t child) : child_(child) {}
  ~Group() {
    kill();
    reap();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void kill() const {
    if (child_ > 0) ::kill(-child_, SIGKILL);
  }
  std::optional<int> reap() {
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

 private:
  pid_t child_;
};

void watch_child(pid_t child, const Group& group, Descriptor output, Descriptor error, const ProcessRequest& request,
                 ProcessResult& result) {
  const auto deadline = Clock::now() + result.timeout;
  const bool limited = result.timeout.count() > 0;
  while (!result.timed_out) {
    check_interrupts();
    const bool open = output.is_open() || error.is_open();
    const bool came = wait_for_output(output, error, request, result, open ? kTickMilliseconds : 1);
    if (!came && has_exited(child)) break;
    if (limited && Clock::now() >= deadline) result.timed_out = !has_exited(child);
    if (limited && Clock::now() >= deadline) break;
  }
  group.kill();  // on time-out all, else helpers of a driver that died
  while ((output.is_open() || error.is_open()) && wait_for_output(output, error, request, result, kTickMilliseconds)) {
  }
}

void take_status(int status, bool of_guard, ProcessResult& result) {
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (!of_guard || result.status <= kEndedBySignal || result.status > kEndedBySignal + NSIG) return;
  result.signal = result.status - kEndedBySignal;
  result.status = -1;
}

ProcessResult not_started(const std::string& reason) {
  ProcessResult result;
  result.start_error = reason;
  return result;
}

}  // namespace

ProcessResult run_process(const ProcessRequest& request) {
  if (request.argv.empty()) return not_started("no program given");
  auto program = find_program(request.argv[0]);
  if (!program) return not_started(request.argv[0] + " was not found or may not be executed");
  std::vector<std::string> arguments = request.argv;
  const bool has_guard = request.has_helpers && is_file(kShell);
  if (has_guard) {
    arguments.front() = *program;
    arguments.insert(arguments.begin(), {kShell, "-c", kGuard, "torch_slang"});
    program = kShell;
  }

  auto output = make_pipe();
  auto error = make_pipe();
  const Descriptor input = make_input(request.input);
  if (!output || !error || !input.is_open()) return not_started(std::strerror(errno));

  std::vector<std::string> variables = merged_environment(request.environment);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  ChildPlan plan{program->c_str(),
                 argv.data(),
                 envp.data(),
                 input.get(),
                 output->write_end.get(),
                 error->write_end.get(),
                 has_guard ? SIGTERM : SIGKILL,
                 ::getpid(),
                 0};

  check_interrupts();
  const pid_t child = start_child(plan);
  if (child < 0) return not_started(std::strerror(errno));
  Group group(child);
  ProcessResult result;
  result.timeout = request.timeout;
  output->write_end.close();
  error->write_end.close();
  if (plan.problem == 0) {
    watch_child(child, group, std::move(output->read_end), std::move(error->read_end), request, result);
  }
  if (const auto status = group.reap()) take_status(*status, has_guard, result);
  if (plan.problem != 0) result.start_error = std::strerror(plan.problem);
  return result;
}

std::chrono::seconds compile_time_limit() {
  return std::chrono::seconds(environment_integer("TORCH_SLANG_COMPILE_TIMEOUT", 120));
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
