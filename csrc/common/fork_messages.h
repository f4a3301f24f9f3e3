// What a fork server and who asks it send each other: Note [fork server] in common/fork_server.h.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <optional>

#include "common/descriptor.h"

namespace torch_slang {

// What the fork is to have.
struct ForkRequest {
  enum : size_t { kInput, kOutput, kError, kEnvironment, kFolder, kDescriptors };

  pid_t asker;  // whose child the fork is to be
  cpu_set_t processors;  // none: the server's
  int nice, policy;  // of the thread that asks
  std::array<Descriptor, kDescriptors> descriptors;
};

bool send_request(const Descriptor& socket, const std::array<int, ForkRequest::kDescriptors>& descriptors);
// Nothing once nobody can ask any more.
std::optional<ForkRequest> receive_request(int socket);

// The fork's number, or -errno.
bool send_answer(int socket, pid_t answer);
// Nothing if the server has ended or the time is over. Interruptible.
std::optional<pid_t> receive_answer(const Descriptor& socket, std::chrono::milliseconds time);

}  // namespace torch_slang
