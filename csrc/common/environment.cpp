#include "common/environment.h"

#include <c10/util/Exception.h>

#include <cctype>
#include <charconv>
#include <cmath>
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

std::optional<int64_t> environment_size(const char* name, int64_t fallback) {
  const auto value = environment(name);
  if (!value) return fallback;
  if (*value == "off") return std::nullopt;
  const auto size = parse_size(*value);
  TORCH_CHECK(size, "expected the environment variable ", name, " to be a size such as 500M or 2G, or off, but got '",
              *value, "'");
  return size;
}

std::optional<int64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit;
  for (const char* c = stop; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  constexpr std::string_view kUnits = "KMGT";
  const size_t power = unit.empty() ? std::string_view::npos : kUnits.find(unit.front());
  const std::string rest = power == std::string_view::npos ? unit : unit.substr(1);
  if (!rest.empty() && rest != "B" && (rest != "IB" || power == std::string_view::npos)) return std::nullopt;
  const double bytes =
      power == std::string_view::npos ? number : std::ldexp(number, 10 * (static_cast<int>(power) + 1));
  if (!(bytes < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(bytes);
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
