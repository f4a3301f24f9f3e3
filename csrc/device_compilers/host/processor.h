// This machine's processor, and the plainer ones whose code it runs too.
//
// Note [refused code]
//   -march=native names what the processor has, which is not what the compiler and its assembler get right.
//     - A known fault is tried once, by a few lines that provoke it; the answer is kept in the disk cache.
//       What the compiler cannot do is then left out (with_workarounds in workarounds.h).
//     - An unknown fault shows when a kernel is refused. If its text is well formed, it is compiled once more for each of
//       plainer_targets(), with a warning, before the refusal is an error (compile_shared_object).
//   Both are decided by the compiler, the flags and the processor, which are all in the key of the kept answer.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

// What -march=native depends on.
const std::string& cpu_identity();
const std::string& cpu_name();  // "Intel(R) Xeon(R) Platinum 8480C", or "CPU"

// The flag of each target that this processor is one of, the best first.
const std::vector<std::string>& plainer_targets();

}  // namespace torch_slang
