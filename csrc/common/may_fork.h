// Whether a process may fork and go on in the fork.
#pragma once

namespace torch_slang {

// False if this process has other threads: a fork has only the thread that called fork, and locks that other threads held stay
// locked. False too if forks are intercepted.
bool may_fork();

// Whether calls of fork reach something before the C library: what is preloaded and follows processes, such as compute-sanitizer.
// It tells another program of each fork, and waits for an answer that never comes when a fork that it does not know of forks.
bool are_forks_intercepted();

}  // namespace torch_slang
