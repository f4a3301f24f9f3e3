#include "common/messages.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/pipes.h"

namespace torch_slang {
namespace {

// Room for the files of one message, aligned as the system wants it.
struct alignas(cmsghdr) Files {
  std::array<char, CMSG_SPACE(kMessageFiles * sizeof(int))> bytes{};
};

msghdr header_of(iovec& text, Files& files) {
  msghdr header = {};
  header.msg_iov = &text;
  header.msg_iovlen = 1;
  header.msg_control = files.bytes.data();
  header.msg_controllen = files.bytes.size();
  return header;
}

std::vector<Descriptor> files_of(msghdr& header) {
  std::vector<Descriptor> files;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(part) + at, sizeof(int));
      files.push_back(above_standard(Descriptor(file)));
    }
  }
  return files;
}

}  // namespace

// Not a stream: of a text that two threads send at a time none would be whole.
std::optional<std::pair<Descriptor, Descriptor>> make_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  std::pair sockets{above_standard(Descriptor(ends[0])), above_standard(Descriptor(ends[1]))};
  if (!sockets.first.is_open() || !sockets.second.is_open()) return std::nullopt;
  return sockets;
}

bool send_message(const Descriptor& socket, std::string_view text, std::initializer_list<int> files) {
  if (text.size() > kMessageBytes || files.size() > kMessageFiles) return false;
  iovec part = {const_cast<char*>(text.data()), text.size()};
  Files room;
  msghdr header = header_of(part, room);
  header.msg_controllen = files.size() == 0 ? 0 : CMSG_SPACE(files.size() * sizeof(int));
  if (files.size() != 0) {
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    std::memcpy(CMSG_DATA(control), files.begin(), files.size() * sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

std::optional<Message> receive_message(const Descriptor& socket) {
  std::array<char, kMessageBytes> bytes;
  iovec part = {bytes.data(), bytes.size()};
  Files room;
  msghdr header = header_of(part, room);
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  return Message{std::string(bytes.data(), static_cast<size_t>(got)), files_of(header)};
}

}  // namespace torch_slang
