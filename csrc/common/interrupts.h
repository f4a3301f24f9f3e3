// Waiting that Ctrl-C ends. Whoever waits here for something long (a compiler, another process, another thread's compile)
// calls check_interrupts() all the time, which throws once the person at the keyboard wants an end. Unfinished work is
// undone by destructors: compilers are killed, folders go.
//
// Note [who is interrupted]
//   Python handles signals itself, so the Python module supplies the check for them, and the exception is the one that
//   the program's handler raises (KeyboardInterrupt as a rule). As in Python itself, the main thread alone gets it.
//   A thread that works for another one (a backward compiled ahead, a variant being tried) stops when any thread was
//   interrupted since it began. In a C++ program nothing is interrupted: there Ctrl-C ends the process, and its compilers.
#pragma once

#include <c10/macros/Export.h>

#include <chrono>
#include <cstdint>
#include <future>

namespace torch_slang {

// The second base, beside std::exception, of every exception that ends a wait in this way. Code that can do without the
// work that failed, and goes on, must not catch these.
class C10_EXPORT Interrupted {
 public:
  virtual ~Interrupted() = default;
};

// Throws an Interrupted if the calling thread is to stop. Called often, by any thread.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

void check_interrupts();

// How many interruptions there have been, as far as the calling thread is concerned: for who starts a thread.
int64_t interruptions_seen();

// While it lives, this thread works for another, who asked for that when there had been `since` interruptions.
class WorksForAnother {
 public:
  explicit WorksForAnother(int64_t since);
  ~WorksForAnother();
  WorksForAnother(const WorksForAnother&) = delete;
  WorksForAnother& operator=(const WorksForAnother&) = delete;

 private:
  int64_t before_;
};

constexpr std::chrono::milliseconds kInterruptTick{20};  // how long a wait goes without a look

// Calls `try_for` with that time until it says that the wait is over.
template <class TryFor>
void wait_interruptibly(const TryFor& try_for) {
  check_interrupts();
  while (!try_for(kInterruptTick)) check_interrupts();
}

template <class T>
void wait_interruptibly_for(const std::shared_future<T>& future) {
  if (future.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return;
  wait_interruptibly([&](auto time) { return future.wait_for(time) == std::future_status::ready; });
}

}  // namespace torch_slang
