// Work that nobody waits for. Each piece has a thread of its own, whose stack is kept until another piece begins. The process
// does not end before all have: they would find its libraries gone.
#pragma once

#include <functional>

namespace torch_slang {

// `work` must not throw; it is destroyed on that thread, with all that it holds. Throws std::system_error if there is no thread.
void run_in_background(std::function<void()> work);

// Whether the process waits for such work in order to end. Work that waits for others asks again and again, and stops.
bool process_is_ending();

// Whether the calling thread does such work.
bool is_in_background();

// While it lives, this thread does work that nobody misses: its waits end with the process (check_interrupts), and its compiles are
// logged at debug alone.
class SpareWork {
 public:
  SpareWork();
  ~SpareWork();
  SpareWork(const SpareWork&) = delete;
  SpareWork& operator=(const SpareWork&) = delete;
};
bool is_spare_work();  // of the calling thread

}  // namespace torch_slang
