// Whether a process may fork and go on in the fork.
#pragma once

namespace torch_slang {

// A fork has the thread that called fork alone: locks that another one held stay locked there. Tools that are loaded into each
// process, such as sanitizers and profilers, may have threads of their own.
bool is_only_thread();

}  // namespace torch_slang
