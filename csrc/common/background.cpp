#include "common/background.h"

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "common/per_process.h"

namespace torch_slang {
namespace {

thread_local bool in_background = false;
thread_local bool does_spare_work = false;

// Threads are joined, not told of: what std::notify_all_at_thread_exit needs is destroyed at exit before this waits.
class Running {
 public:
  static Running& instance() {
    static auto* all = [] {
      auto* made = new PerProcess<Running>;
      std::atexit([] { instance().wait(); });
      return made;
    }();
    return all->get();
  }

  void start(std::function<void()> work) {
    join_ended();
    const std::lock_guard<std::mutex> lock(mutex_);
    Thread& added = threads_.emplace_back();
    try {
      added.thread = std::thread([&added, work = std::move(work)]() mutable {
        in_background = true;
        std::exchange(work, nullptr)();
        added.has_ended = true;
      });
    } catch (...) {
      threads_.pop_back();
      throw;
    }
  }

  bool is_ending() const { return is_ending_; }

 private:
  struct Thread {
    std::thread thread;
    std::atomic<bool> has_ended{false};
  };

  // Before anything can throw: a thread that is destroyed before it is joined ends the process.
  void join_ended() {
    std::list<Thread> ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (auto it = threads_.begin(); it != threads_.end();) {
        const auto next = std::next(it);
        if (it->has_ended) ended.splice(ended.end(), threads_, it);
        it = next;
      }
    }
    for (Thread& one : ended) one.thread.join();
  }

  // Until all have ended, their thread_local objects destroyed.
  void wait() {
    is_ending_ = true;
    for (;;) {
      std::list<Thread> left;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        left.swap(threads_);
      }
      if (left.empty()) return;
      for (Thread& one : left) {
        if (one.thread.get_id() == std::this_thread::get_id()) {
          one.thread.detach();  // it is the one that ends the process
        } else {
          one.thread.join();
        }
      }
    }
  }

  std::mutex mutex_;
  std::list<Thread> threads_;
  std::atomic<bool> is_ending_{false};
};

}  // namespace

void run_in_background(std::function<void()> work) { Running::instance().start(std::move(work)); }

bool process_is_ending() { return Running::instance().is_ending(); }

bool is_in_background() { return in_background; }

SpareWork::SpareWork() { does_spare_work = true; }

SpareWork::~SpareWork() { does_spare_work = false; }

bool is_spare_work() { return does_spare_work; }

}  // namespace torch_slang
