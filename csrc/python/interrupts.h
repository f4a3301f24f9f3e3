// Ctrl-C during a wait: Note [who is interrupted] in common/interrupts.h.
#pragma once

namespace torch_slang {

void watch_python_signals();

}  // namespace torch_slang
