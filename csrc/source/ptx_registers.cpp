#include "source/ptx_registers.h"

#include <algorithm>

namespace torch_slang {
namespace {

constexpr std::string_view kSpace = " \t";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "%r7", of 32 bits.
bool is_register(std::string_view text) { return text.starts_with("%r") && is_number(text.substr(2)); }

// Takes what stands before the separator, or all, and leaves the rest.
std::string_view take_until(std::string_view& text, std::string_view separators) {
  const size_t end = std::min(text.find_first_of(separators), text.size());
  const std::string_view part = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

PtxRegisters::PtxRegisters(std::string_view function) {
  while (!function.empty()) add(take_until(function, ";\n"));
}

// An instruction's results stand first: `@%p1 mov.u32 %r1, 7`, `ld.global.v2.u32 {%r1, %r2}, [%rd1]`.
void PtxRegisters::add(std::string_view line) {
  if (line.starts_with('@')) take_until(line, kSpace);
  line = trimmed(line);
  const std::string_view operation = take_until(line, kSpace);
  line = trimmed(line);
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    std::string_view results = take_until(line, "}");
    while (!results.empty()) {
      const std::string_view name = take_until(results, ",");
      if (is_register(name)) definitions_[name].has_others = true;
    }
    return;
  }
  std::string_view names = take_until(line, ",");
  while (!names.empty()) {  // of two results, `%r1|%p1`
    const std::string_view name = take_until(names, "|");
    if (!is_register(name)) continue;
    const std::string_view source = trimmed(line);
    Definitions& definitions = definitions_[name];
    if (operation.starts_with("mov.") && (is_number(source) || is_register(source)))
      definitions.moved.push_back(source);
    else
      definitions.has_others = true;
  }
}

std::optional<std::set<std::string>> PtxRegisters::numbers_in(std::string_view name) const {
  std::set<std::string_view> seen;
  std::set<std::string> numbers;
  if (!collect(name, seen, numbers) || numbers.empty()) return std::nullopt;
  return numbers;
}

bool PtxRegisters::collect(std::string_view name, std::set<std::string_view>& seen,
                           std::set<std::string>& numbers) const {
  if (!seen.insert(name).second) return true;
  const auto found = definitions_.find(name);
  if (found == definitions_.end()) return true;
  if (found->second.has_others) return false;
  return std::all_of(found->second.moved.begin(), found->second.moved.end(), [&](std::string_view source) {
    if (is_register(source)) return collect(source, seen, numbers);
    numbers.emplace(source);
    return true;
  });
}

}  // namespace torch_slang
