// This machine's processor, and what a compiler cannot do on it.
//
// Note [refused code]
//   -march=native names what the processor has, which is not what the compiler and its assembler get right.
//     - What is known to go wrong is tried once, by a few lines that provoke it; the answer is kept in the disk cache.
//       What the compiler cannot do is then left out (with_workarounds).
//     - What is not known shows when a kernel is refused. If its text is well formed, it is compiled once more for each of
//       plainer_targets(), with a warning, before the refusal is an error (compile_shared_object).
//   Both are decided by the compiler, the flags and the processor, which are all in the key of what is kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/host_compiler.h"

namespace torch_slang {

// What -march=native depends on.
const std::string& cpu_identity();
const std::string& cpu_name();  // "Intel(R) Xeon(R) Platinum 8480C", or "CPU"

// The flag of each target that this processor is one of, the best first.
const std::vector<std::string>& plainer_targets();

// `flags`, and those that leave out what the compiler gets wrong of what `text`, emitted code, may ask for.
std::vector<std::string> with_workarounds(const HostCompiler& compiler, std::vector<std::string> flags,
                                          std::string_view text);

}  // namespace torch_slang
