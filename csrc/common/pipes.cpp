#include "common/pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace torch_slang {

Descriptor above_standard(Descriptor descriptor) {
  if (!descriptor.is_open() || descriptor.get() > 2) return descriptor;
  return Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 3));
}

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{above_standard(Descriptor(ends[0])), above_standard(Descriptor(ends[1]))};
  if (!pipe.read_end.is_open() || !pipe.write_end.is_open()) return std::nullopt;
  return pipe;
}

Descriptor make_input(const std::string& text) {
  if (text.empty()) return above_standard(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  Descriptor file = above_standard(Descriptor(::memfd_create("torch_slang_input", MFD_CLOEXEC)));
  for (size_t done = 0; file.is_open() && done < text.size();) {
    const ssize_t written = ::pwrite(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) return Descriptor();
    if (written > 0) done += static_cast<size_t>(written);
  }
  return file;
}

void take_output(Descriptor& from, std::string& to) {
  char buffer[1 << 16];
  const ssize_t got = ::read(from.get(), buffer, sizeof(buffer));
  if (got > 0) {
    to.append(buffer, static_cast<size_t>(got));
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.close();
  }
}

bool wait_for_output(Descriptor& output, Descriptor& error, std::string& said, std::string& complained,
                     int milliseconds) {
  pollfd watched[2] = {{output.get(), POLLIN, 0}, {error.get(), POLLIN, 0}};  // poll skips negative descriptors
  if (::poll(watched, 2, milliseconds) <= 0) return false;
  if (watched[0].revents != 0) take_output(output, said);
  if (watched[1].revents != 0) take_output(error, complained);
  return true;
}

}  // namespace torch_slang
