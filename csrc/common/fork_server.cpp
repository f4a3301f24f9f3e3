#include "common/fork_server.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/background.h"
#include "common/child_process.h"
#include "common/descriptor.h"
#include "common/files.h"
#include "common/fork_messages.h"
#include "common/interrupts.h"
#include "common/may_fork.h"
#include "common/start_program.h"

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A server that has not answered by then is given up.
constexpr milliseconds kReady{20000};

std::string as_text(const std::vector<std::string>& environment) {
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

// Gives this fork the environment, the folder, the output, the processors and the priority of the request. Its standard input is
// the socket until the answer is sent. Returns 0 or an errno. EPERM: the fork is not the asker's child, since another program stands between them or the system ignores CLONE_PARENT.
int become(const ForkRequest& request) {
  const auto& sent = request.descriptors;
  if (::setpgid(0, 0) != 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != request.asker) return EPERM;
  for (const Descriptor& one : sent) {
    if (!one.is_open()) return EBADF;
  }
  if (!take_environment(sent[ForkRequest::kEnvironment])) return ENOMEM;
  if (::fchdir(sent[ForkRequest::kFolder].get()) != 0) return errno;
  if (CPU_COUNT(&request.processors) > 0) ::sched_setaffinity(0, sizeof request.processors, &request.processors);
  ::setpriority(PRIO_PROCESS, 0, request.nice);  // which may be lower than the server's, and so is allowed
  constexpr sched_param kNoPriority{};
  if (request.policy == SCHED_IDLE) ::sched_setscheduler(0, SCHED_IDLE, &kNoPriority);
  const bool can_write = ::dup2(sent[ForkRequest::kOutput].get(), STDOUT_FILENO) >= 0 &&
                         ::dup2(sent[ForkRequest::kError].get(), STDERR_FILENO) >= 0;
  return can_write ? 0 : errno;
}

// As fork(), but the parent's child. glibc has no call for that.
long fork_sibling() {
  if (may_fork()) return ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  errno = EPERM;
  return -1;
}

// Errors that come again.
bool is_lasting(int error) { return error == EPERM || error == EINVAL || error == ENOSYS; }

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What a server that this process starts now would hand on to its forks: the program, and this process's rights and limits.
std::string inherited(const std::vector<std::string>& argv) {
  std::string all = as_text(argv);
  uid_t users[3] = {};
  gid_t own_groups[3] = {};
  ::getresuid(&users[0], &users[1], &users[2]);
  ::getresgid(&own_groups[0], &own_groups[1], &own_groups[2]);
  append(all, users);
  append(all, own_groups);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr))));
  if (::getgroups(static_cast<int>(groups.size()), groups.data()) > 0) {
    for (const gid_t group : groups) append(all, group);
  }
  struct stat root = {};
  ::stat("/", &root);
  append(all, root.st_dev);
  append(all, root.st_ino);
  for (int i = 0; i < RLIM_NLIMITS; ++i) {
    rlimit limit = {};
    ::getrlimit(static_cast<__rlimit_resource>(i), &limit);
    append(all, limit.rlim_cur);
    append(all, limit.rlim_max);
  }
  return all;
}

}  // namespace

bool serve_forks() {
  while (const auto request = receive_request(STDIN_FILENO)) {
    const long fork = fork_sibling();
    if (fork < 0) send_answer(STDIN_FILENO, -errno);
    if (fork != 0) continue;
    const int problem = become(*request);
    const bool is_told = send_answer(STDIN_FILENO, problem != 0 ? -problem : ::getpid());
    if (problem == 0 && is_told && ::dup2(request->descriptors[ForkRequest::kInput].get(), STDIN_FILENO) == 0)
      return true;
    ::_exit(1);
  }
  return false;
}

// One server, from its start to its end.
class ForkServer::Server {
 public:
  explicit Server(const std::vector<std::string>& argv)
      : inherited_(inherited(argv)), nice_(::getpriority(PRIO_PROCESS, 0)) {
    request_.argv = argv;
  }

  // No fork gets a higher priority than its server has.
  bool is_for(const std::vector<std::string>& argv) const {
    return nice_ <= ::getpriority(PRIO_PROCESS, 0) && inherited_ == inherited(argv);
  }

  // On a thread of its own: Note [fork server].
  void keep(milliseconds patience) {
    start();
    std::unique_lock<std::mutex> lock(mutex_);
    has_started_ = true;
    changed_.notify_all();
    last_used_ = Clock::now();
    while (is_wanted(patience)) changed_.wait_for(lock, kInterruptTick);
    is_over_ = true;
    socket_.close();  // ends a server that may no longer be killed: the process has given up its rights
    process_ = nullptr;
    if (users_ > 0) return;
    while (::waitpid(-1, nullptr, WNOHANG | __WNOTHREAD) > 0) {  // forks that could not say who they are
    }
  }

  // False: it is over.
  bool enter() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_over_) return false;
    ++users_;
    if (is_in_background()) ++background_users_;
    changed_.wait(lock, [&] { return has_started_; });
    return true;
  }
  void leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --users_;
    if (is_in_background()) --background_users_;
    last_used_ = Clock::now();
    changed_.notify_all();
  }

  // From who has entered, one at a time. The fork's number or -errno; nothing if there is no answer.
  std::optional<pid_t> ask(const std::array<int, ForkRequest::kDescriptors>& descriptors, milliseconds time) const {
    return send_request(socket_, descriptors) ? receive_answer(socket_, time) : std::nullopt;
  }

  // From now on nobody can enter. For who has asked: a fork whose answer has not been read is killed.
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    pid_t fork = 0;
    const bool is_lost = ::recv(socket_.get(), &fork, sizeof fork, MSG_DONTWAIT) == sizeof fork && fork > 0;
    if (is_lost) ChildProcess(fork, Descriptor(), Descriptor());
    socket_.close();
  }

 private:
  void start() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = above_standard(Descriptor(ends[0]));
    const auto nowhere = [] {
      return Pipe{Descriptor(), above_standard(Descriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC)))};
    };
    process_ = start_program(request_, {above_standard(Descriptor(ends[1])), nowhere(), nowhere()}).child;
  }

  // A process that ends waits for what its background threads compile. What others compile ends with it.
  bool is_wanted(milliseconds patience) const {
    if (background_users_ > 0) return true;
    if (process_is_ending()) return false;
    return users_ > 0 || (!is_over_ && Clock::now() < last_used_ + patience);
  }

  ProcessRequest request_;
  const std::string inherited_;
  const int nice_;  // of the thread that asked first, which the server's own thread and the server have
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_started_ = false;
  bool is_over_ = false;
  int users_ = 0;
  int background_users_ = 0;
  Clock::time_point last_used_;
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
};

struct ForkServer::State {
  std::timed_mutex mutex;  // held from a request until its answer
  std::shared_ptr<Server> server;
  std::atomic<bool> cannot_fork{false};

  // Entered, or null if there are no threads, or the process ends.
  std::shared_ptr<Server> server_for(const ProcessRequest& request, milliseconds patience) {
    if (server != nullptr && server->is_for(request.argv) && server->enter()) return server;
    server = std::make_shared<Server>(request.argv);
    try {
      run_in_background([one = server, patience] { one->keep(patience); });
    } catch (const std::system_error&) {
      return nullptr;
    }
    return server->enter() ? server : nullptr;
  }
};

// Ends the server that has not answered as it should.
class ForkServer::Use {
 public:
  explicit Use(std::shared_ptr<Server> server) : server_(std::move(server)) {}
  ~Use() {
    if (!is_well_) server_->end();
    server_->leave();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  void note_success() { is_well_ = true; }
  const Server& server() const { return *server_; }

 private:
  const std::shared_ptr<Server> server_;
  bool is_well_ = false;
};

std::optional<ProcessResult> ForkServer::run(const ProcessRequest& request) {
  State& state = state_.get();
  if (state.cannot_fork || are_forks_intercepted()) return std::nullopt;  // a server's are then, too
  auto channels = make_channels(request.input);
  const Descriptor environment = text_in_memory("torch_slang_environment", as_text(merged_environment(request)));
  const Descriptor folder = above_standard(Descriptor(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  if (!channels || !environment.is_open() || !folder.is_open()) return std::nullopt;

  std::unique_lock lock(state.mutex, std::defer_lock);
  wait_interruptibly([&](auto time) { return lock.try_lock_for(time); });
  auto server = state.server_for(request, patience_);
  if (server == nullptr) return std::nullopt;
  Use use(std::move(server));  // ended before the lock is given up
  const milliseconds time = request.timeout.count() > 0 ? std::min(kReady, request.timeout) : kReady;
  const auto end = Clock::now() + time;
  const auto answer = use.server().ask({channels->input.get(), channels->output.write_end.get(),
                                        channels->error.write_end.get(), environment.get(), folder.get()},
                                       time);
  state.cannot_fork = answer ? *answer < 0 && is_lasting(-*answer) : Clock::now() >= end;
  if (!answer || *answer <= 0) return std::nullopt;
  use.note_success();
  lock.unlock();
  ChildProcess child(*answer, std::move(channels->output.read_end), std::move(channels->error.read_end));
  channels.reset();
  return child.finish(request);
}

}  // namespace torch_slang
