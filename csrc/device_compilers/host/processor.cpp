#include "device_compilers/host/processor.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

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

}  // namespace torch_slang
