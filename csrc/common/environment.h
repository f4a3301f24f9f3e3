// Reading environment variables. An empty variable counts as unset; a value of the wrong form is an error that names the
// variable and its allowed values. Values are read at each call: callers on a hot path keep what they read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace torch_slang {

std::optional<std::string> environment(const char* name);
std::string environment_or(const char* name, const std::string& fallback);
bool environment_flag(const char* name, bool fallback);  // 1/0, true/false, on/off, yes/no
int64_t environment_integer(const char* name, int64_t fallback);
std::optional<int64_t> environment_size(const char* name, int64_t fallback);  // bytes; nothing: off

// Bytes of "500M", "2G", "1.5 GiB" or "1000": units are powers of 1024. Nothing: that is no size.
std::optional<int64_t> parse_size(std::string_view text);
std::optional<double> environment_seconds(const char* name);  // more than none

}  // namespace torch_slang
