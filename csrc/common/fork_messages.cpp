#include "common/fork_messages.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/interrupts.h"

namespace torch_slang {
namespace {

using Clock = std::chrono::steady_clock;

struct Bytes {
  pid_t asker;
  cpu_set_t processors;
  int nice, policy;
};

// Some bytes and some descriptors.
struct Message {
  Bytes bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * ForkRequest::kDescriptors)> control{};
  iovec span{&bytes, sizeof bytes};
  msghdr header{};

  Message() {
    header.msg_iov = &span;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
};

// Calls it again where a signal came between.
template <class Call>
ssize_t without_interruption(const Call& call) {
  ssize_t result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

bool send_request(const Descriptor& socket, const std::array<int, ForkRequest::kDescriptors>& descriptors) {
  Message message;
  message.bytes.asker = ::getpid();
  message.bytes.nice = ::getpriority(PRIO_PROCESS, 0);
  message.bytes.policy = ::sched_getscheduler(0);
  cpu_set_t& processors = message.bytes.processors;
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) CPU_ZERO(&processors);
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(control), descriptors.data(), sizeof descriptors);
  const auto sent = without_interruption([&] { return ::sendmsg(socket.get(), &message.header, MSG_NOSIGNAL); });
  return sent == static_cast<ssize_t>(sizeof message.bytes);
}

std::optional<ForkRequest> receive_request(int socket) {
  Message message;
  const auto got =
      without_interruption([&] { return ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_WAITALL); });
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  if (got != static_cast<ssize_t>(sizeof message.bytes) || control == nullptr) return std::nullopt;
  ForkRequest request{message.bytes.asker, message.bytes.processors, message.bytes.nice, message.bytes.policy, {}};
  const size_t count = std::min<size_t>(ForkRequest::kDescriptors, (control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  for (size_t i = 0; i < count; ++i) {
    int one = -1;
    std::memcpy(&one, CMSG_DATA(control) + i * sizeof one, sizeof one);
    request.descriptors[i] = above_standard(Descriptor(one));
  }
  return request;
}

bool send_answer(int socket, pid_t answer) {
  return without_interruption([&] { return ::send(socket, &answer, sizeof answer, MSG_NOSIGNAL); }) == sizeof answer;
}

std::optional<pid_t> receive_answer(const Descriptor& socket, std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  bool is_there = false;
  wait_interruptibly([&](auto tick) {
    pollfd watched{socket.get(), POLLIN, 0};
    is_there = ::poll(&watched, 1, static_cast<int>(std::min<std::chrono::milliseconds>(tick, time).count())) > 0;
    return is_there || Clock::now() >= end;
  });
  pid_t answer = 0;
  const auto receive = [&] { return ::recv(socket.get(), &answer, sizeof answer, MSG_WAITALL); };
  if (!is_there || without_interruption(receive) != sizeof answer) return std::nullopt;
  return answer;
}

}  // namespace torch_slang
