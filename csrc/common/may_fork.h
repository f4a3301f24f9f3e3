// Whether a process may fork and go on in the fork.
#pragma once

namespace torch_slang {

// False if it has other threads, or something was preloaded (LD_PRELOAD). A fork has the thread that called fork alone: locks that
// another one held stay locked there. And what is preloaded may want to know of each fork: forks under compute-sanitizer never end.
bool may_fork();

// Whether LD_PRELOAD was set when the program was started. What is preloaded may have removed the variable since.
bool has_preloaded();

}  // namespace torch_slang
