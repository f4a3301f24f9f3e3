// State that each process has for itself. A fork must not use its parent's: a thread of the parent may hold its lock for ever.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace torch_slang {

// Made at the first use in each process. Never destroyed: threads may still use it.
template <class T>
class PerProcess {
 public:
  T& get() {
    Owned* owned = current_;
    while (owned == nullptr || owned->process != ::getpid()) {
      auto made = std::make_unique<Owned>();
      if (current_.compare_exchange_weak(owned, made.get())) owned = made.release();
    }
    return owned->value;
  }

 private:
  struct Owned {
    const pid_t process = ::getpid();
    T value;
  };
  std::atomic<Owned*> current_{nullptr};
};

}  // namespace torch_slang
