// The signals by which a program that crashes ends.
#pragma once

#include <csignal>

namespace torch_slang {

inline constexpr int kCrashSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

}  // namespace torch_slang
