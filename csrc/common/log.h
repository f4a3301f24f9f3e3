// Lines for people, on stderr, each prefixed `torch_slang: `. TORCH_SLANG_LOG chooses how many: off, warning (default),
// info, debug. Any thread may log; a line is written whole.
#pragma once

#include <c10/util/StringUtil.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

namespace torch_slang {

enum class LogLevel : int8_t { Off, Warning, Info, Debug };

LogLevel log_level();
void set_log_level(LogLevel level);  // in place of the environment's
inline bool log_enabled(LogLevel level) { return level <= log_level(); }

void log_line(LogLevel level, const std::string& text);  // written if the level is enabled
void log_warning_once(const std::string& text);  // one text is written once in a process

// The parts are put together only if the line is going to be written.
template <class... Parts>
void log_warning(const Parts&... parts) {
  if (log_enabled(LogLevel::Warning)) log_line(LogLevel::Warning, c10::str(parts...));
}
template <class... Parts>
void log_info(const Parts&... parts) {
  if (log_enabled(LogLevel::Info)) log_line(LogLevel::Info, c10::str(parts...));
}
template <class... Parts>
void log_debug(const Parts&... parts) {
  if (log_enabled(LogLevel::Debug)) log_line(LogLevel::Debug, c10::str(parts...));
}

// Lives as long as a compile: "compiled <what> for <target> in 0.31 s" at info. If it takes more than a second that is said
// at any level above off, and before it "compiling <what> for <target>, which takes more than a second ..." as soon as that is
// so. Nothing more is said when an exception ends the compile. Compiles of spare work (common/background.h) are told of at debug alone.
class CompileTimer {
 public:
  CompileTimer(std::string what, std::string target);
  ~CompileTimer();
  CompileTimer(const CompileTimer&) = delete;
  CompileTimer& operator=(const CompileTimer&) = delete;

 private:
  std::string what_;
  std::string target_;
  std::chrono::steady_clock::time_point start_;
  int exceptions_;
  bool is_quiet_;
  std::promise<void> ended_;
  std::future<bool> is_slow_;
};

}  // namespace torch_slang
