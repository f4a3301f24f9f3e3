#include "common/start_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/files.h"

extern char** environ;

namespace torch_slang {
namespace {

// Note [death of the parent]. A job in the background has no standard input of its own, so it is handed on.
constexpr const char* kShell = "/bin/sh";
constexpr const char* kGuard = "exec 3<&0; trap 'kill -9 0' TERM; \"$@\" <&3 3<&- & exec 3<&-; wait $!";

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

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  Pipe pipe{above_standard(Descriptor(ends[0])), above_standard(Descriptor(ends[1]))};
  return pipe.read_end.is_open() && pipe.write_end.is_open() ? std::move(pipe) : Pipe{};
}

Descriptor make_input(const std::string& text) {
  if (text.empty()) return above_standard(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  return text_in_memory("torch_slang_input", text);
}

}  // namespace

std::optional<Channels> make_channels(const std::string& input) {
  Channels channels{make_input(input), make_pipe(), make_pipe()};
  const bool are_open =
      channels.input.is_open() && channels.output.write_end.is_open() && channels.error.write_end.is_open();
  return are_open ? std::optional(std::move(channels)) : std::nullopt;
}

std::vector<std::string> merged_environment(const ProcessRequest& request) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& addition : request.environment) replaced = replaced || addition.first == name;
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : request.environment) merged.push_back(name + "=" + value);
  return merged;
}

Started start_program(const ProcessRequest& request, Channels channels) {
  if (request.argv.empty()) return {nullptr, "no program given"};
  auto program = find_program(request.argv[0]);
  if (!program) return {nullptr, request.argv[0] + " was not found or may not be executed"};
  std::vector<std::string> arguments = request.argv;
  const bool has_guard = request.has_helpers && is_file(kShell);
  if (has_guard) {
    arguments.front() = *program;
    arguments.insert(arguments.begin(), {kShell, "-c", kGuard, "torch_slang"});
    program = kShell;
  }

  std::vector<std::string> variables = merged_environment(request);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(variables);
  ChildPlan plan{program->c_str(),
                 argv.data(),
                 envp.data(),
                 channels.input.get(),
                 channels.output.write_end.get(),
                 channels.error.write_end.get(),
                 has_guard ? SIGTERM : SIGKILL,
                 ::getpid(),
                 0};
  const pid_t process = start_child(plan);
  if (process < 0) return {nullptr, std::strerror(errno)};
  auto child = std::make_unique<ChildProcess>(process, std::move(channels.output.read_end),
                                              std::move(channels.error.read_end), has_guard);
  if (plan.problem != 0) return {nullptr, std::strerror(plan.problem)};
  return {std::move(child), ""};
}

}  // namespace torch_slang
