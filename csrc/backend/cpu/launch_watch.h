// Stops launches on the CPU that take too long, or that somebody at the keyboard has had enough of. Any thread may watch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace torch_slang {

// Note [launch watch]
//   One thread looks after all launches that are watched, a hundred times a second while there are any; it sets a word of
//   memory, which the kernel's loops read (Note [stopped launches] in prelude/polls.h). While launches are watched
//   SIGINT goes through a handler of ours, which counts and calls the one that was there: Python's only makes a
//   note, upon which nothing happens until the launch returns. Where there was none, Ctrl-C ends the process as ever.
class LaunchWatch {
 public:
  enum class Reason : uint8_t { None, TimeLimit, Interrupt };

  // `stop` is set to 1 once `limit` has passed, or upon Ctrl-C; it must outlive this object.
  LaunchWatch(unsigned* stop, std::optional<std::chrono::duration<double>> limit);
  ~LaunchWatch();
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  // Looks no longer; says why it has stopped the launch.
  Reason end();

 private:
  friend class Watchman;

  unsigned* const stop_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  uint64_t interrupts_before_ = 0;
  Reason reason_ = Reason::None;
  bool is_watched_ = true;
};

}  // namespace torch_slang
