#include "common/environment.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <initializer_list>

namespace torch_slang {
namespace {

bool is_one_of(const std::string& value, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (value == word) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::string environment_or(const char* name, const std::string& fallback) {
  return environment(name).value_or(fallback);
}

bool environment_flag(const char* name, bool fallback) {
  const auto value = environment(name);
  if (!value) return fallback;
  if (is_one_of(*value, {"1", "true", "on", "yes"})) return true;
  if (is_one_of(*value, {"0", "false", "off", "no"})) return false;
  TORCH_CHECK(false, "expected the environment variable ", name, " to be 1 or 0, but got '", *value, "'");
}

int64_t environment_integer(const char* name, int64_t fallback) {
  const auto value = environment(name);
  if (!value) return fallback;
  int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, problem] = std::from_chars(value->data(), end, number);
  TORCH_CHECK(problem == std::errc() && stop == end, "expected the environment variable ", name,
              " to be an integer, but got '", *value, "'");
  return number;
}

std::optional<double> environment_seconds(const char* name) {
  const auto value = environment(name);
  if (!value) return std::nullopt;
  double seconds = 0;
  const char* end = value->data() + value->size();
  const auto [stop, problem] = std::from_chars(value->data(), end, seconds);
  TORCH_CHECK(problem == std::errc() && stop == end && seconds > 0 && seconds < 1e9,
              "expected the environment variable ", name, " to be a number of seconds, more than 0, but got '", *value,
              "'");
  return seconds;
}

}  // namespace torch_slang
