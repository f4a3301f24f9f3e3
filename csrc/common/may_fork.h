// Whether a process may fork and go on in the fork.
#pragma once

namespace torch_slang {

// False if this process has other threads: a fork has only the thread that called fork, and locks that other threads held stay
// locked. False too if forks are intercepted.
bool may_fork();

// Whether a preloaded library has a `fork` in front of the C library's. compute-sanitizer has one: it tells another program of each
// fork and waits for the answer. That program does not know the processes that clone() made, so forks of these would wait for ever.
bool are_forks_intercepted();

}  // namespace torch_slang
