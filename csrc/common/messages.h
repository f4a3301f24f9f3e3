// Messages over a pair of sockets of one machine. A message arrives whole, whichever threads send, and carries open files.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/descriptor.h"

namespace torch_slang {

struct Message {
  std::string text;
  std::vector<Descriptor> files;
};

inline constexpr size_t kMessageBytes = 4096;  // at most
inline constexpr size_t kMessageFiles = 8;

// Two sockets; what is sent to one arrives at the other.
std::optional<std::pair<Descriptor, Descriptor>> make_sockets();

// Waits while the other side has much to read. False: nobody is there.
bool send_message(const Descriptor& socket, std::string_view text, std::initializer_list<int> files = {});

// Waits for one. None: the other side is closed, and all that it sent was read.
std::optional<Message> receive_message(const Descriptor& socket);

}  // namespace torch_slang
