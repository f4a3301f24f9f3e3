#include "backend/cpu/processor.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "cache/cache.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/process.h"

namespace torch_slang {
namespace {

// The lines of /proc/cpuinfo that say what kind of processor this is; others change from core to core or by the minute.
bool names_processor_kind(std::string_view line) {
  constexpr std::array<std::string_view, 12> kKeys = {
      "vendor_id",       "cpu family",       "model",       "stepping", "flags",        "Features",
      "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "isa"};
  std::string_view key = line.substr(0, line.find(':'));
  key = key.substr(0, key.find_last_not_of(" \t") + 1);
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

// Whether each of the words stands in cpu_identity().
bool has_all(std::string_view features) {
  std::istringstream known(cpu_identity()), wanted{std::string(features)};
  const std::vector<std::string> words{std::istream_iterator<std::string>(known), {}};
  for (std::string word; wanted >> word;) {
    if (std::find(words.begin(), words.end(), word) == words.end()) return false;
  }
  return true;
}

struct Probe {
  std::string_view names;  // in emitted code: it may ask for this
  const char* flag;        // leaves out what the compiler gets wrong
  const char* text;
};

// GCC 12 for processors with AVX512-FP16: a half that is itself or zero, and has no register to go to, is stored under a
// mask of a kind that stores do not have ("unsupported masking for `vmovsh'"). No register outlives a call.
constexpr Probe kProbes[] = {
#if defined(__x86_64__)
    {"__half", "-mno-avx512fp16",
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
  cache::count_run(cache::Compiler::Host);
  return run_process(request).succeeded();
}

// Whether the flag is what the probe needs to compile.
bool is_needed(const HostCompiler& compiler, std::vector<std::string> flags, const Probe& probe) {
  if (compiles(compiler, flags, probe)) return false;
  flags.emplace_back(probe.flag);
  const bool helps = compiles(compiler, flags, probe);
  if (helps)
    log_info(compiler.program(), " gets code for this processor wrong: kernels are compiled with ", probe.flag);
  return helps;
}

bool is_known_to_be_needed(const HostCompiler& compiler, const std::vector<std::string>& flags, const Probe& probe) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, bool>();
  Digest digest;
  digest.add("probe").add(probe.flag).add(probe.text).add(compiler.stamp).add(cpu_identity());
  for (const std::string& word : compiler.command) digest.add(word);
  for (const std::string& word : flags) digest.add(word);
  const std::string key = digest.hex();

  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  if (const auto kept = cache::read(cache::Kind::Probe, key)) return (*known)[key] = *kept == probe.flag;
  const bool needed = is_needed(compiler, flags, probe);
  cache::write(cache::Kind::Probe, key, needed ? probe.flag : "");
  return (*known)[key] = needed;
}

}  // namespace

const std::string& cpu_identity() {
  static const std::string identity = [] {
    std::ifstream file("/proc/cpuinfo");
    std::string text;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() && !text.empty()) break;  // the first processor's lines stand for all
      if (names_processor_kind(line)) text += line + "\n";
    }
    return text;
  }();
  return identity;
}

const std::string& cpu_name() {
  static const std::string name = [] {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(": ");
      if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
    }
    return std::string("CPU");
  }();
  return name;
}

const std::vector<std::string>& plainer_targets() {
  static const std::vector<std::string> targets = [] {
    std::vector<std::string> all;
#if defined(__x86_64__)
    if (has_all("avx avx2 bmi1 bmi2 f16c fma abm movbe")) all.emplace_back("-march=x86-64-v3");
    all.emplace_back("-march=x86-64");
#elif defined(__aarch64__)
    all.emplace_back("-mcpu=generic");
#endif
    return all;
  }();
  return targets;
}

std::vector<std::string> with_workarounds(const HostCompiler& compiler, std::vector<std::string> flags,
                                          std::string_view text) {
  const std::vector<std::string> given = flags;
  for (const Probe& probe : kProbes) {
    if (text.find(probe.names) == std::string_view::npos) continue;
    if (is_known_to_be_needed(compiler, given, probe)) flags.emplace_back(probe.flag);
  }
  return flags;
}

}  // namespace torch_slang
