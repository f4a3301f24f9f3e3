// Whether a process may fork and go on in the fork.
#pragma once

namespace torch_slang {

// False if this process has other threads: a fork has only the thread that called fork, and locks that other threads held stay
// locked. False too if LD_PRELOAD loaded a library into it: forks under compute-sanitizer hung.
bool may_fork();

// Whether LD_PRELOAD was set when the program was started. What is preloaded may have removed the variable since.
bool has_preloaded();

}  // namespace torch_slang
