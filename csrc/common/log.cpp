#include "common/log.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "common/background.h"
#include "common/environment.h"

namespace torch_slang {
namespace {

constexpr std::chrono::seconds kSlowCompile{1};
constexpr int8_t kNotRead = -1;

std::atomic<int8_t> current_level{kNotRead};

void write_line(const std::string& text) {
  const std::string line = "torch_slang: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call: stdio's lock keeps lines of several threads apart
}

LogLevel level_from_environment() {
  const std::string name = environment_or("TORCH_SLANG_LOG", "warning");
  if (name == "off") return LogLevel::Off;
  if (name == "warning") return LogLevel::Warning;
  if (name == "info") return LogLevel::Info;
  if (name == "debug") return LogLevel::Debug;
  write_line("expected the environment variable TORCH_SLANG_LOG to be off, warning, info or debug, but got '" + name +
             "'");
  return LogLevel::Warning;
}

}  // namespace

LogLevel log_level() {
  int8_t level = current_level.load(std::memory_order_relaxed);
  if (level == kNotRead) {
    // Several threads may come here at once; all read the same value.
    level = static_cast<int8_t>(level_from_environment());
    current_level.store(level, std::memory_order_relaxed);
  }
  return static_cast<LogLevel>(level);
}

void set_log_level(LogLevel level) { current_level.store(static_cast<int8_t>(level), std::memory_order_relaxed); }

void log_line(LogLevel level, const std::string& text) {
  if (log_enabled(level)) write_line(text);
}

void log_warning_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!seen.insert(text).second) return;
  }
  log_line(LogLevel::Warning, text);
}

CompileTimer::CompileTimer(std::string what, std::string target)
    : what_(std::move(what)),
      target_(std::move(target)),
      start_(std::chrono::steady_clock::now()),
      exceptions_(std::uncaught_exceptions()),
      is_quiet_(is_spare_work()) {
  log_debug("compiling ", what_, " for ", target_);
  if (is_quiet_ || !log_enabled(LogLevel::Warning)) return;
  auto watch = [this, ended = ended_.get_future()] {
    if (ended.wait_for(kSlowCompile) == std::future_status::ready) return false;
    write_line("compiling " + what_ + " for " + target_ + ", which takes more than a second ...");
    return true;
  };
  try {
    is_slow_ = std::async(std::launch::async, std::move(watch));
  } catch (const std::system_error&) {  // no thread can be had: it is told at the end alone
  }
}

CompileTimer::~CompileTimer() {
  ended_.set_value();
  const bool is_slow = is_slow_.valid() && is_slow_.get();
  if (std::uncaught_exceptions() > exceptions_) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const LogLevel level = is_quiet_                           ? LogLevel::Debug
                         : is_slow || elapsed > kSlowCompile ? LogLevel::Warning
                                                             : LogLevel::Info;
  if (!log_enabled(level)) return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.2f", elapsed.count());
  try {
    log_line(level, "compiled " + what_ + " for " + target_ + " in " + seconds + " s");
  } catch (const std::bad_alloc&) {  // what comes next will say so
  }
}

}  // namespace torch_slang
