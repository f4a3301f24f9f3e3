// An open file descriptor, closed when its owner goes. Closing leaves errno as it was.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace torch_slang {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void close() {
    if (value_ < 0) return;
    const int saved = errno;
    ::close(std::exchange(value_, -1));
    errno = saved;
  }

 private:
  int value_ = -1;
};

// Never 0, 1 or 2, which are the standard streams of a child, and may be free in a process that closed its own.
inline Descriptor above_standard(Descriptor descriptor) {
  if (!descriptor.is_open() || descriptor.get() > 2) return descriptor;
  return Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 3));
}

}  // namespace torch_slang
