// The C++ compiler of this machine, as the CPU back end uses it: which one, with which flags, and its results.
//
// Note [flags of CPU kernels]
//   Results are to match CUDA's within rounding, so the rules are CUDA's: a product and a sum may become one fused operation
//   (-ffp-contract=fast, as NVRTC's --fmad=true; the CUDA and the CPU result then differ in rounding only, and either is
//   at least as exact as without), no errno (-fno-math-errno), no floating-point exceptions (-fno-trapping-math, which
//   lets guarded arithmetic vectorise), memory may be seen as another type (-fno-strict-aliasing). Infinities, NaN and signed zeros are kept.
//   fast_math lets sums be reordered, divisions become products and the sign of zero be lost, and takes vector versions of
//   exp, sin and the like. Infinities and NaN stay, as with NVRTC's --use_fast_math, and so does the process's treatment of
//   denormals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/hash.h"
#include "source/kernel_source.h"

namespace torch_slang {

struct HostCompiler {
  std::vector<std::string> command;  // the program's absolute path, then words that came with its name ("g++ -m64")
  std::string stamp;  // of the program's file: tells one version from the next without starting it
  const std::string& program() const { return command.front(); }
};

// TORCH_SLANG_CXX, else CXX (split as a shell splits) if it is there, else the first of c++, g++, clang++ in PATH. Throws CompileError that names `op` and says what
// to install or set. Environment and file are looked at afresh each time: both may change while a process lives.
HostCompiler find_host_compiler(const std::string& op);

// All words between the compiler and the files. TORCH_SLANG_CXXFLAGS, split as a shell splits, is added at the end.
std::vector<std::string> host_compiler_flags(const std::string& op, bool fast_math, bool has_checks);

// With a level of optimisation behind one that leaves code that nothing reaches, whose marks would say what the kernel
// never does (Note [marks] in prelude/mark.h).
std::vector<std::string> with_exact_marks(const std::string& op, std::vector<std::string> flags);

// Of all that decides what compile_shared_object makes.
Digest object_digest(const HostCompiler& compiler, const std::vector<std::string>& flags, std::string_view text);

// Compiles `text` to the shared object `output`. Throws CompileError: one sentence that names the op, the user's file and
// the target, then the compiler's diagnostics. What the compiler refuses for this processor alone it makes for a plainer
// one, with a warning: Note [refused code] in processor.h.
void compile_shared_object(const HostCompiler& compiler, const std::vector<std::string>& flags,
                           const KernelSource& source, const std::string& text, const std::string& output);

}  // namespace torch_slang
