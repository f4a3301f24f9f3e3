#include "device_compilers/host/workarounds.h"

#include <utility>

#include "cache/cache.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/once_each.h"
#include "common/process.h"
#include "common/temporary_folder.h"
#include "device_compilers/host/processor.h"
#include "program/intrinsics.h"

namespace torch_slang {
namespace {

struct Probe {
  std::string_view intrinsic;  // the texts that use it may meet this
  const char* flag;        // makes the compiler leave it out
  const char* text;
};

// GCC 12 for processors with AVX512-FP16: a half that is itself or zero, and has no register to go to, is stored under a
// mask of a kind that stores do not have ("unsupported masking for `vmovsh'"). No register outlives a call.
constexpr Probe kProbes[] = {
#if defined(__x86_64__)
    {intrinsics::kHalf, "-mno-avx512fp16",
     "void other();\n"
     "_Float16 larger(_Float16 a, _Float16 b) { _Float16 c = a > b ? a : _Float16(0); other(); return c; }\n"},
#endif
};

bool compiles(const HostCompiler& compiler, const std::vector<std::string>& flags, const Probe& probe) {
  const TemporaryFolder folder;
  const std::string input = folder.file("probe.cpp");
  if (!publish_file(input, probe.text)) return true;
  ProcessRequest request;
  request.argv = compiler.command;
  request.argv.insert(request.argv.end(), flags.begin(), flags.end());
  request.argv.insert(request.argv.end(), {"-c", "-o", folder.file("probe.o"), input});
  request.environment = {{"LC_ALL", "C"}, {"TMPDIR", folder.path()}};
  request.timeout = compile_time_limit();
  request.has_helpers = true;
  cache::count_run(cache::Compiler::Host);
  const ProcessResult result = run_process(request);
  return result.succeeded() || result.timed_out;
}

// Whether the probe compiles with the flag, and not without it.
bool is_needed(const HostCompiler& compiler, std::vector<std::string> flags, const Probe& probe) {
  if (compiles(compiler, flags, probe)) return false;
  flags.emplace_back(probe.flag);
  const bool helps = compiles(compiler, flags, probe);
  if (helps)
    log_info(compiler.program(), " gets code for this processor wrong: kernels are compiled with ", probe.flag);
  return helps;
}

bool is_known_to_be_needed(const HostCompiler& compiler, const std::vector<std::string>& flags, const Probe& probe) {
  static auto* known =
      new OnceEach<std::string, bool>();  // never destroyed: threads may compile while the process ends
  Digest digest;
  digest.add("probe").add(probe.flag).add(probe.text).add(compiler.stamp).add(cpu_identity());
  for (const std::string& word : compiler.command) digest.add(word);
  for (const std::string& word : flags) digest.add(word);
  const std::string key = digest.hex();
  return known->get(key, [&] {
    if (const auto kept = cache::read(cache::Kind::Probe, key)) return *kept == probe.flag;
    const bool needed = is_needed(compiler, flags, probe);
    cache::write(cache::Kind::Probe, key, needed ? probe.flag : "");
    return needed;
  });
}

}  // namespace

std::vector<std::string> with_workarounds(const HostCompiler& compiler, std::vector<std::string> flags,
                                          const DeviceText& text) {
  const std::vector<std::string> given = flags;
  for (const Probe& probe : kProbes) {
    if (!uses(text, {probe.intrinsic})) continue;
    if (is_known_to_be_needed(compiler, given, probe)) flags.emplace_back(probe.flag);
  }
  return flags;
}

}  // namespace torch_slang
