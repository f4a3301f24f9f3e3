#include "common/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/background.h"
#include "common/child_process.h"
#include "common/descriptor.h"
#include "common/files.h"
#include "common/interrupts.h"
#include "common/start_program.h"

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

// A server that is not ready by then is given up.
constexpr std::chrono::seconds kReady{20};

// What is sent with each request, in this order.
enum Sent : size_t { kInput, kOutput, kError, kEnvironment, kFolder, kDescriptors };

// A message of some bytes and kDescriptors descriptors.
struct Message {
  cpu_set_t processors;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptors)> control{};
  iovec bytes{&processors, sizeof processors};
  msghdr header{};

  Message() {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

bool send_request(int socket, const std::array<int, kDescriptors>& descriptors) {
  Message message;
  if (::sched_getaffinity(0, sizeof message.processors, &message.processors) != 0) CPU_ZERO(&message.processors);
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(control), descriptors.data(), sizeof descriptors);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message.header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message.processors);
}

struct Request {
  cpu_set_t processors;
  std::array<Descriptor, kDescriptors> descriptors;
};

// Nothing once nobody can ask any more.
std::optional<Request> receive_request(int socket) {
  Message message;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  if (got != static_cast<ssize_t>(sizeof message.processors) || control == nullptr) return std::nullopt;
  Request request{message.processors, {}};
  const size_t count = std::min<size_t>(kDescriptors, (control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  for (size_t i = 0; i < count; ++i) {
    int one = -1;
    std::memcpy(&one, CMSG_DATA(control) + i * sizeof(int), sizeof one);
    request.descriptors[i] = above_standard(Descriptor(one));
  }
  return request;
}

// The fork's number, or one below 0. Nothing if the server has ended or is not ready in time.
std::optional<pid_t> receive_answer(int socket) {
  pid_t answer = -1;
  const auto end = Clock::now() + kReady;
  bool is_there = false;
  wait_interruptibly([&](auto time) {
    pollfd watched{socket, POLLIN, 0};
    is_there = ::poll(&watched, 1, static_cast<int>(time.count())) > 0;
    return is_there || Clock::now() >= end;
  });
  if (!is_there || ::recv(socket, &answer, sizeof answer, MSG_WAITALL) != sizeof answer) return std::nullopt;
  return answer;
}

void answer_request(pid_t fork) { ::send(STDIN_FILENO, &fork, sizeof fork, MSG_NOSIGNAL); }

std::string as_lines(const std::vector<std::string>& environment) {
  std::string all;
  for (const std::string& one : environment) all += one + '\0';
  return all;
}

bool take_environment(const Descriptor& file) {
  const auto all = read_descriptor(file);
  if (!all || ::clearenv() != 0) return false;
  for (size_t begin = 0, end; (end = all->find('\0', begin)) != std::string::npos; begin = end + 1) {
    if (::putenv(::strdup(all->c_str() + begin)) != 0) return false;
  }
  return true;
}

// The fork becomes as the request wants it, and says so.
bool take(const Request& request, pid_t parent) {
  const auto& sent = request.descriptors;
  const bool is_guarded = ::setpgid(0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent;
  if (!is_guarded || !take_environment(sent[kEnvironment]) || ::fchdir(sent[kFolder].get()) != 0) return false;
  if (CPU_COUNT(&request.processors) > 0) ::sched_setaffinity(0, sizeof request.processors, &request.processors);
  if (::dup2(sent[kOutput].get(), STDOUT_FILENO) < 0 || ::dup2(sent[kError].get(), STDERR_FILENO) < 0) return false;
  answer_request(::getpid());  // before the socket goes
  return ::dup2(sent[kInput].get(), STDIN_FILENO) == STDIN_FILENO;
}

}  // namespace

bool serve_forks() {
  const pid_t parent = ::getppid();
  while (const auto request = receive_request(STDIN_FILENO)) {
    // glibc has no call for a fork that is a sibling. This process has no other threads, whose locks the fork might miss.
    const long fork = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (fork < 0) answer_request(-1);
    if (fork != 0) continue;
    if (take(*request, parent)) return true;
    answer_request(-1);
    ::_exit(1);
  }
  return false;
}

// One server, from its start to its end.
class ForkServer::Server {
 public:
  explicit Server(std::vector<std::string> argv) { request_.argv = std::move(argv); }

  bool has_argv(const std::vector<std::string>& argv) const { return request_.argv == argv; }

  // On a thread of its own: Note [fork server].
  void keep(std::chrono::milliseconds patience) {
    start();
    std::unique_lock<std::mutex> lock(mutex_);
    has_started_ = true;
    changed_.notify_all();
    const auto is_wanted = [&] {
      return users_ > 0 || (!is_over_ && !process_is_ending() && Clock::now() < last_used_ + patience);
    };
    last_used_ = Clock::now();
    while (is_wanted()) changed_.wait_for(lock, kInterruptTick);
    is_over_ = true;
    process_ = nullptr;
  }

  // False: it is over.
  bool enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_over_) return false;
    ++users_;
    changed_.wait(lock, [&] { return has_started_; });
    return true;
  }
  void leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --users_;
    last_used_ = Clock::now();
    changed_.notify_all();
  }
  // Nobody else may ask it.
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    socket_.close();
  }

  int socket() const { return socket_.get(); }

 private:
  void start() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = Descriptor(ends[0]);
    const auto nowhere = [] {
      return Pipe{Descriptor(), above_standard(Descriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)))};
    };
    process_ = start_program(request_, {above_standard(Descriptor(ends[1])), nowhere(), nowhere()}).child;
  }

  ProcessRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_started_ = false;
  bool is_over_ = false;
  int users_ = 0;
  Clock::time_point last_used_;
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
};

// Of this process. A fork of it has a state of its own, since it has none of the threads.
struct ForkServer::State {
  const pid_t process = ::getpid();
  std::timed_mutex mutex;  // of who asks, until the answer is there
  std::shared_ptr<Server> server;
  bool cannot_fork = false;
};

ForkServer::State& ForkServer::state() {
  State* state = state_;
  while (state == nullptr || state->process != ::getpid()) {
    auto made = std::make_unique<State>();
    if (state_.compare_exchange_weak(state, made.get())) state = made.release();
  }
  return *state;
}

std::shared_ptr<ForkServer::Server> ForkServer::begin(const ProcessRequest& request) const {
  auto server = std::make_shared<Server>(request.argv);
  try {
    run_in_background([server, patience = patience_] { server->keep(patience); });
  } catch (const std::system_error&) {  // there are no threads
    return nullptr;
  }
  return server->enter() ? server : nullptr;
}

std::optional<ProcessResult> ForkServer::run(const ProcessRequest& request) {
  auto channels = make_channels(request.input);
  Descriptor environment = file_in_memory("torch_slang_environment");
  const Descriptor folder(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const bool is_ready = channels && folder.is_open() && write_all(environment, as_lines(merged_environment(request))) &&
                        ::lseek(environment.get(), 0, SEEK_SET) == 0;
  if (!is_ready) return std::nullopt;

  State& state = this->state();
  auto lock = lock_interruptibly(state.mutex);
  if (state.cannot_fork) return std::nullopt;
  const bool is_there = state.server != nullptr && state.server->has_argv(request.argv) && state.server->enter();
  if (!is_there) state.server = begin(request);
  if (state.server == nullptr) return std::nullopt;
  const std::shared_ptr<Server> server = state.server;
  struct Use {
    Server& server;
    bool has_answered = false;
    ~Use() {
      if (!has_answered) server.end();
      server.leave();
    }
  } use{*server};
  const bool is_sent =
      send_request(server->socket(), {channels->input.get(), channels->output.write_end.get(),
                                      channels->error.write_end.get(), environment.get(), folder.get()});
  const auto fork = is_sent ? receive_answer(server->socket()) : std::nullopt;
  use.has_answered = fork.has_value();
  state.cannot_fork = fork && *fork < 0;
  lock.unlock();
  if (!fork || *fork < 0) return std::nullopt;
  ChildProcess child(*fork, std::move(channels->output.read_end), std::move(channels->error.read_end));
  channels.reset();
  return child.finish(request);
}

}  // namespace torch_slang
