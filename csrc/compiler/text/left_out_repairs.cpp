#include "compiler/text/left_out_repairs.h"

#include <algorithm>

#include "compiler/text/words.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

// The repairs that change sources (compiler/source).
constexpr std::string_view kOfSources[] = {"while loops", "single exits", "undeclared structs", "constant calls"};
constexpr std::string_view kSeparator = ", ";

}  // namespace

LeftOutRepairs::LeftOutRepairs(const CompileRequest& request) {
  for (const auto& [name, value] : request.defines) {
    if (name == kLeaveOut) add(value);
  }
}

void LeftOutRepairs::add(std::string_view names) {
  for (size_t end = 0; !names.empty(); names.remove_prefix(std::min(end + kSeparator.size(), names.size()))) {
    end = std::min(names.find(kSeparator), names.size());
    names_.emplace(names.substr(0, end));
  }
}

void LeftOutRepairs::check(const std::vector<std::vector<std::string_view>>& others) const {
  for (const std::string& name : names_) {
    const auto holds = [&](const auto& names) { return is_among(names, name); };
    if (!holds(kOfSources) && std::ranges::none_of(others, holds))
      throw_compile_error(kLeaveOut, " names ", name, ", which is no repair");
  }
}

}  // namespace torch_slang
