#include "compiler/fork_server.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

#include "common/messages.h"
#include "common/pipes.h"
#include "program/compiler_protocol.h"

namespace torch_slang {
namespace {

// It holds some 200 MB.
constexpr int kIdleMilliseconds = 60'000;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void set_child_signal(int how) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(how, &child, nullptr);
}

class ForkServer {
 public:
  explicit ForkServer(Descriptor requests) : requests_(std::move(requests)) {
    set_child_signal(SIG_BLOCK);  // read from ended_ instead
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ended_ = above_standard(Descriptor(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)));
    TORCH_CHECK(ended_.is_open(), "torch-slangc: no signalfd");
  }

  std::optional<std::vector<std::string>> run() {
    while (true) {
      const std::vector<pollfd> seen = wait();
      if (seen.empty()) return std::nullopt;
      kill_unwanted(seen);
      if (seen[1].revents != 0) tell_ends();
      if (seen[0].revents == 0) continue;
      auto message = receive_message(requests_);
      if (!message) break;
      if (message->files.size() == kRequestFiles && start(*message)) return lines_of(message->text);
    }
    for (const Fork& fork : forks_) ::kill(fork.process, SIGKILL);
    return std::nullopt;
  }

 private:
  struct Fork {
    pid_t process;
    Descriptor answer;
    bool unwanted = false;
  };

  // For a request, the end of a fork, or somebody who wants an answer no more: in this order. Empty: it was long idle.
  std::vector<pollfd> wait() const {
    std::vector<pollfd> watched = {{requests_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}};
    for (const Fork& fork : forks_) watched.push_back({fork.unwanted ? -1 : fork.answer.get(), POLLIN, 0});
    const int events = ::poll(watched.data(), watched.size(), forks_.empty() ? kIdleMilliseconds : -1);
    return events == 0 ? std::vector<pollfd>() : watched;
  }

  // Their end is told like every other.
  void kill_unwanted(const std::vector<pollfd>& seen) {
    for (size_t i = 0; i < forks_.size(); ++i) {
      if (seen[i + 2].revents == 0) continue;
      forks_[i].unwanted = true;
      ::kill(forks_[i].process, SIGKILL);
    }
  }

  void tell_ends() {
    signalfd_siginfo told;
    while (::read(ended_.get(), &told, sizeof(told)) > 0) {
    }
    std::erase_if(forks_, [](const Fork& fork) {
      int status = 0;
      if (::waitpid(fork.process, &status, WNOHANG) != fork.process) return false;
      send_message(fork.answer, std::to_string(status));
      return true;
    });
  }

  // True in the fork. If there can be none, the answer's socket closes without a word.
  bool start(Message& message) {
    const pid_t server = ::getpid();
    const pid_t process = ::fork();
    if (process > 0) forks_.push_back({process, std::move(message.files[kAnswerSocket])});
    if (process != 0) return false;
    // A server that died before it could be watched has left its fork to another.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != server) ::_exit(127);
    for (const int file : {0, 1, 2}) {
      if (::dup2(message.files[static_cast<size_t>(file)].get(), file) != file) ::_exit(127);
    }
    message.files.clear();
    forks_.clear();
    requests_.close();
    ended_.close();
    set_child_signal(SIG_UNBLOCK);
    return true;
  }

  Descriptor requests_;
  Descriptor ended_;
  std::vector<Fork> forks_;
};

}  // namespace

void leave_parent() {
  auto left = make_pipe();
  TORCH_CHECK(left, "torch-slangc: no pipe");
  const pid_t process = ::fork();
  TORCH_CHECK(process >= 0, "torch-slangc: no fork");
  if (process > 0) {
    left->write_end.close();
    char none = 0;
    [[maybe_unused]] const ssize_t end = ::read(left->read_end.get(), &none, 1);
    ::_exit(0);
  }
  ::setsid();  // what is left of the parent's group is killed when it ends
  const Descriptor nothing = above_standard(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  ::dup2(nothing.get(), STDOUT_FILENO);
  ::dup2(nothing.get(), STDERR_FILENO);
}

std::optional<std::vector<std::string>> wait_for_request() {
  const int requests = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  const Descriptor nothing = above_standard(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  ::dup2(nothing.get(), STDIN_FILENO);
  return ForkServer(Descriptor(requests)).run();
}

}  // namespace torch_slang
