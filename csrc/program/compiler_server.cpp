#include "program/compiler_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>

#include "common/files.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "common/messages.h"
#include "common/pipes.h"
#include "program/compiler_protocol.h"

extern char** environ;

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTick = static_cast<int>(kInterruptTick.count());
constexpr int kFailures = 3;  // in a row, after which no server is tried
constexpr std::chrono::seconds kTimeToDie{5};  // of a fork that nobody wants any more

// Read by the loader, the C library and Slang; torch-slangc itself reads no variable.
constexpr std::string_view kVariables[] = {"LD_", "GLIBC_", "MALLOC_", "SLANG_"};

// All that a process started now would have, and a fork of one that was started before might not.
std::string surroundings_of(const std::string& program) {
  std::string all = file_stamp(program).value_or(program);
  std::error_code none;
  all += '\n' + std::filesystem::current_path(none).string() + '\n';
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool counts = std::any_of(std::begin(kVariables), std::end(kVariables),
                                    [&](std::string_view name) { return text.starts_with(name); });
    if (counts) all.append(text) += '\n';
  }
  for (int which = 0; which < RLIM_NLIMITS; ++which) {
    rlimit limit = {};
    ::getrlimit(static_cast<decltype(RLIMIT_AS)>(which), &limit);
    all += std::to_string(limit.rlim_cur) + ' ' + std::to_string(limit.rlim_max) + '\n';
  }
  return all;
}

// The server ends when nobody has this any more: those who wait for an answer do.
struct Server {
  std::string surroundings;
  Descriptor requests;
};

class Servers {
 public:
  static Servers& instance() {
    static auto* servers = new Servers;  // never destroyed: threads may compile until the end
    return *servers;
  }

  std::shared_ptr<Server> find_or_start(const std::string& program) {
    std::string surroundings = surroundings_of(program);
    Descriptor other_side;
    std::shared_ptr<Server> server;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failures_ >= kFailures) return nullptr;
      if (current_ && current_->surroundings == surroundings) return current_;
      auto sockets = make_sockets();
      if (!sockets) return nullptr;
      server = std::make_shared<Server>(std::move(surroundings), std::move(sockets->first));
      other_side = std::move(sockets->second);
      std::erase_if(all_, [](const auto& one) { return one.expired(); });
      all_.push_back(server);
      current_ = server;
    }
    // Others may use it already: what they send waits in the socket. A server that does not start has closed it.
    ProcessRequest process;
    process.argv = {program, kServeManyOption};
    process.input_file = other_side.get();
    run_process(process);
    return server;
  }

  void forget(const std::shared_ptr<Server>& server) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (current_ == server) current_ = nullptr;
  }
  void note(bool answered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failures_ = answered ? 0 : failures_ + 1;
  }

 private:
  // Note [a server of its own]
  //   A fork of this process that kept a socket open would keep the server from seeing that this process has ended. So
  //   it closes all. No lock is held while anything is waited for, or a fork would wait for that as well.
  Servers() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       instance().close_all();
                       instance().mutex_.unlock();
                     });
  }
  void close_all() {
    for (const auto& one : all_) {
      if (const auto server = one.lock()) server->requests.close();
    }
    all_.clear();
    current_ = nullptr;
  }

  std::mutex mutex_;
  std::shared_ptr<Server> current_;
  std::vector<std::weak_ptr<Server>> all_;  // current_, and those that still owe answers
  int failures_ = 0;
};

// One request that a server was sent. The fork that answers it does not outlive this.
class Exchange {
 public:
  // False: the server is gone.
  bool send(const Server& server, const ProcessRequest& request) {
    std::string words;
    for (size_t i = 1; i < request.argv.size(); ++i) words += request.argv[i] + "\n";
    auto output = make_pipe();
    auto error = make_pipe();
    auto sockets = make_sockets();
    const Descriptor input = make_input(request.input);
    if (!output || !error || !sockets || !input.is_open()) return false;
    output_ = std::move(output->read_end);
    error_ = std::move(error->read_end);
    answer_ = std::move(sockets->first);
    return send_message(server.requests, words,
                        {input.get(), output->write_end.get(), error->write_end.get(), sockets->second.get()});
  }

  // None: the server has died, and the fork with it.
  std::optional<ProcessResult> wait(std::chrono::milliseconds timeout) {
    ProcessResult result;
    result.timeout = timeout;
    const auto deadline = Clock::now() + timeout;
    while (!is_told(result)) {
      check_interrupts();
      result.timed_out = timeout.count() > 0 && Clock::now() >= deadline;
      if (result.timed_out) break;
    }
    if (result.timed_out) {
      stop(result);
      result.signal = SIGKILL;
      return result;
    }
    const auto told = receive_message(answer_);
    if (!told) return std::nullopt;
    take_status(std::stoi(told->text), result);
    return result;
  }

  ~Exchange() { want_no_more(); }
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

 private:
  // Takes what comes, for a tick at most. The end of the output comes before the status; a fork that has closed its files
  // may run on.
  bool is_told(ProcessResult& result) {
    if (output_.is_open() || error_.is_open()) {
      wait_for_output(output_, error_, result.output, result.error, kTick);
      return false;
    }
    pollfd watched = {answer_.get(), POLLIN, 0};
    return ::poll(&watched, 1, kTick) > 0;
  }

  // A fork of this process may have the socket too: closing it alone would say nothing.
  void want_no_more() const {
    if (answer_.is_open()) ::shutdown(answer_.get(), SHUT_RDWR);
  }

  // Until the fork is gone, as far as can be seen.
  void stop(ProcessResult& result) {
    want_no_more();
    const auto end = Clock::now() + kTimeToDie;
    while ((output_.is_open() || error_.is_open()) && Clock::now() < end) {
      wait_for_output(output_, error_, result.output, result.error, kTick);
    }
  }

  static void take_status(int status, ProcessResult& result) {
    if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  }

  Descriptor output_;
  Descriptor error_;
  Descriptor answer_;
};

}  // namespace

std::optional<ProcessResult> run_by_server(const ProcessRequest& request) {
  Servers& servers = Servers::instance();
  for (int attempt = 0; attempt < 2; ++attempt) {  // one that was long idle has ended
    const auto server = servers.find_or_start(request.argv.front());
    if (!server) return std::nullopt;
    Exchange exchange;
    if (exchange.send(*server, request)) {
      auto result = exchange.wait(request.timeout);
      servers.note(result.has_value());
      if (!result || result->timed_out) servers.forget(server);
      return result;
    }
    servers.forget(server);
  }
  return std::nullopt;
}

}  // namespace torch_slang
