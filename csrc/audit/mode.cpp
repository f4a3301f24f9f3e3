#include "audit/mode.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <set>

#include "common/environment.h"

namespace torch_slang::audit {
namespace {

constexpr const char* kModeNames[] = {"off", "background", "first"};

Mode mode_named(const std::string& name, const char* where) {
  const auto* const found = std::find(std::begin(kModeNames), std::end(kModeNames), name);
  TORCH_CHECK(found != std::end(kModeNames), where, ": expected off, background or first, but got '", name, "'");
  return static_cast<Mode>(found - std::begin(kModeNames));
}

std::atomic<Mode>& current() {
  static std::atomic<Mode> mode = mode_named(environment_or("TORCH_SLANG_AUDIT", "background"), "TORCH_SLANG_AUDIT");
  return mode;
}

struct Accepted {
  std::mutex mutex;
  std::set<std::string> names;
};

Accepted& accepted() {
  static auto* instance = new Accepted;
  return *instance;
}

}  // namespace

Mode mode() { return current(); }
std::string mode_name() { return kModeNames[static_cast<size_t>(mode())]; }
void set_mode(const std::string& name) { current() = mode_named(name, "torch_slang.audit.mode"); }

void accept(const std::string& name) {
  const std::lock_guard<std::mutex> lock(accepted().mutex);
  accepted().names.insert(name);
}

bool is_accepted(const std::string& name) {
  const std::lock_guard<std::mutex> lock(accepted().mutex);
  return accepted().names.count(name) > 0;
}

}  // namespace torch_slang::audit
