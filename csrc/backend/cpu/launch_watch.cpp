#include "backend/cpu/launch_watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "torch_slang/error.h"

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval(10);

std::atomic<uint64_t> interrupts{0};
struct sigaction before_ours;  // written while the handler is not installed

void count_interrupt(int number, siginfo_t* info, void* context) {
  interrupts.fetch_add(1);
  if ((before_ours.sa_flags & SA_SIGINFO) != 0)
    before_ours.sa_sigaction(number, info, context);
  else
    before_ours.sa_handler(number);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == count_interrupt;
}

void install_handler() {
  struct sigaction found;
  if (sigaction(SIGINT, nullptr, &found) != 0 || is_ours(found)) return;
  if ((found.sa_flags & SA_SIGINFO) == 0 && (found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN)) return;
  before_ours = found;
  found.sa_flags |= SA_SIGINFO;
  found.sa_sigaction = count_interrupt;
  sigaction(SIGINT, &found, nullptr);
}

// Unless somebody has put one of their own there in the meantime.
void remove_handler() {
  struct sigaction found;
  if (sigaction(SIGINT, nullptr, &found) == 0 && is_ours(found)) sigaction(SIGINT, &before_ours, nullptr);
}

}  // namespace

class Watchman {
 public:
  // A forked process has no thread but its own, so it has a watchman of its own. Never destroyed: launches may go on while
  // the process ends.
  static Watchman& here() {
    static std::mutex mutex;
    static Watchman* watchman = nullptr;
    static pid_t process = 0;
    const std::lock_guard lock(mutex);
    if (watchman == nullptr || process != getpid()) {
      watchman = new Watchman();
      process = getpid();
    }
    return *watchman;
  }

  void add(LaunchWatch* watch) {
    const std::lock_guard lock(mutex_);
    if (watched_.empty()) install_handler();
    watch->interrupts_before_ = interrupts.load();
    watched_.push_back(watch);
    more_.notify_one();
  }

  void remove(LaunchWatch* watch) {
    const std::lock_guard lock(mutex_);
    watched_.erase(std::find(watched_.begin(), watched_.end(), watch));
    if (watched_.empty()) remove_handler();
  }

 private:
  // Its thread takes no signals: they are for those who wait for something.
  Watchman() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string error;
    try {
      // Detached, since it runs until the process ends and has nothing to finish: it compiles nothing, and writes no file.
      std::thread([this] { run(); }).detach();
    } catch (const std::exception& refused) {  // a system_error, or no memory for it
      error = refused.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!error.empty())
      throw_launch_error(
          "no thread can be started to watch over launches (debug mode or TORCH_SLANG_LAUNCH_TIMEOUT asks ",
          "for one): ", error);
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (watched_.empty())
        more_.wait(lock);
      else
        more_.wait_for(lock, kInterval);
      const Clock::time_point now = Clock::now();
      for (LaunchWatch* watch : watched_) look_after(*watch, now);
    }
  }

  static void look_after(LaunchWatch& watch, Clock::time_point now) {
    if (watch.reason_ != LaunchWatch::Reason::None) return;
    if (interrupts.load() != watch.interrupts_before_)
      watch.reason_ = LaunchWatch::Reason::Interrupt;
    else if (watch.deadline_ && now >= *watch.deadline_)
      watch.reason_ = LaunchWatch::Reason::TimeLimit;
    else
      return;
    std::atomic_ref<unsigned>(*watch.stop_).store(1);
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<LaunchWatch*> watched_;
};

LaunchWatch::LaunchWatch(unsigned* stop, std::optional<std::chrono::duration<double>> limit) : stop_(stop) {
  if (limit) deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(*limit);
  Watchman::here().add(this);
}

LaunchWatch::~LaunchWatch() { end(); }

LaunchWatch::Reason LaunchWatch::end() {
  if (is_watched_) Watchman::here().remove(this);
  is_watched_ = false;
  return reason_;
}

}  // namespace torch_slang
