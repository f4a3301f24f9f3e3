#include "audit/queue.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

#include "common/background.h"
#include "common/interrupts.h"
#include "common/per_process.h"

namespace torch_slang::audit {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kQuiet{2000};  // since the last job was asked for

// From here on the calling thread starts no OpenMP team: launches and torch's operations run on this thread alone. With a second team the
// process would have more OpenMP threads than processors, and the threads of all teams would sleep at barriers, the user's too.
void compute_on_one_thread() {
  at::get_num_threads();  // sets the thread's number when it is first asked
  omp_set_num_threads(1);
}

class Queue {
 public:
  static Queue& instance() {
    static auto* all = new PerProcess<Queue>;
    return all->get();
  }

  std::shared_future<void> add(std::function<void()> work) {
    std::promise<void> end;
    std::shared_future<void> future = end.get_future().share();
    bool is_first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back({.work = std::move(work), .end = std::move(end)});
      last_ = future;
      begin_ = Clock::now() + kQuiet;
      is_first = !std::exchange(is_running_, true);
    }
    if (is_first) start();
    return future;
  }

  std::shared_future<void> last() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }
  // That job begins now, with all before it.
  std::shared_future<void> hurry() {
    const std::lock_guard<std::mutex> lock(mutex_);
    begin_ = Clock::time_point::min();
    return last_;
  }

 private:
  struct Job {
    std::function<void()> work;
    std::promise<void> end;
    bool is_awaited = false;  // when it begins
  };

  // Of the thread, and so of the compilers that it starts, until it ends: no priority can be raised again.
  // SCHED_IDLE gives way at once, where a thread that is nice may go on for some milliseconds.
  static void lower_priority() {
    const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), 19);
    constexpr sched_param kNoPriority{};
    ::sched_setscheduler(thread, SCHED_IDLE, &kNoPriority);
  }

  void start() {
    try {
      run_in_background([this] { serve(); });
    } catch (const std::system_error&) {  // no thread can be had: nothing is audited
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Job& job : jobs_) job.end.set_value();
      jobs_.clear();
      is_running_ = false;
    }
  }

  void serve() {
    const SpareWork spare;
    compute_on_one_thread();
    try {
      while (auto job = next()) {
        if (!job->is_awaited) lower_priority();
        job->work();
        job->end.set_value();
      }
    } catch (const Interrupted&) {  // the process ends
    }
  }

  std::optional<Job> next() {
    for (;;) {
      check_interrupts();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (jobs_.empty()) {
          is_running_ = false;
          return std::nullopt;
        }
        if (Clock::now() >= begin_) {
          Job job = std::move(jobs_.front());
          jobs_.pop_front();
          job.is_awaited = begin_ == Clock::time_point::min();
          return job;
        }
      }
      std::this_thread::sleep_for(kInterruptTick);
    }
  }

  std::mutex mutex_;
  std::deque<Job> jobs_;
  std::shared_future<void> last_;  // of the job that was asked for last
  Clock::time_point begin_;
  bool is_running_ = false;
};

}  // namespace

std::shared_future<void> enqueue(std::function<void()> work) { return Queue::instance().add(std::move(work)); }

void hurry() { Queue::instance().hurry(); }

bool wait(std::optional<double> seconds) {
  const bool only_asks = seconds && !(*seconds > 0);  // true of NaN, too
  const std::shared_future<void> last = only_asks ? Queue::instance().last() : Queue::instance().hurry();
  if (!last.valid()) return true;
  const auto is_over = [&](Clock::duration time) { return last.wait_for(time) == std::future_status::ready; };
  if (only_asks) return is_over({});
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::min(seconds.value_or(1e9), 1e9)));
  wait_interruptibly(
      [&](Clock::duration tick) { return is_over(std::min(tick, end - Clock::now())) || Clock::now() > end; });
  return is_over({});
}

}  // namespace torch_slang::audit
