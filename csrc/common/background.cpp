#include "common/background.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace torch_slang {
namespace {

class Running {
 public:
  static Running& instance() {
    static auto* running = [] {
      auto* made = new Running;  // never destroyed: threads tell it that they end
      std::atexit([] { instance().wait(); });
      return made;
    }();
    return *running;
  }

  void begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(process_, getpid()) != getpid()) count_ = 0;  // a fork has none of its parent's threads
    ++count_;
  }
  void refused() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --count_;
  }
  // Is told when the calling thread has ended, its thread_local objects destroyed.
  void end() {
    std::unique_lock<std::mutex> lock(mutex_);
    --count_;
    std::notify_all_at_thread_exit(ended_, std::move(lock));
  }

 private:
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (process_ == getpid()) ended_.wait(lock, [&] { return count_ == 0; });
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  pid_t process_ = 0;
  int count_ = 0;
};

}  // namespace

void run_in_background(std::function<void()> work) {
  Running& running = Running::instance();
  running.begin();
  try {
    std::thread([&running, work = std::move(work)]() mutable {
      std::exchange(work, nullptr)();
      running.end();
    }).detach();
  } catch (...) {
    running.refused();
    throw;
  }
}

}  // namespace torch_slang
