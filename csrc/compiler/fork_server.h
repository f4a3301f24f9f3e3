// The side of torch-slangc in Note [a compiler that forks] (program/compiler_protocol.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace torch_slang {

// Goes on in a process of its own, which the caller's parent does not know, while the caller ends.
void leave_parent();

// Forks for each request that comes over stdin. Returns in each fork, the words of its request; its standard files are the
// request's then. And once in the server: nothing, when no more requests can come.
std::optional<std::vector<std::string>> wait_for_request();

}  // namespace torch_slang
