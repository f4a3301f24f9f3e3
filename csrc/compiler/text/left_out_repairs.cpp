#include "compiler/text/left_out_repairs.h"

#include <algorithm>

#include "compiler/text/words.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

// The last five change sources (compiler/source), the others Slang's instructions (compiler/ir).
constexpr std::string_view kRepairs[] = {
    "promotions",    "conversions",  "types of indices",   "computed beginnings", "quotients",
    "nested stores", "mixed stores", "long chains",        "copies in loops",     "lost derivatives",
    "while loops",   "single exits", "undeclared structs", "constant calls"};
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

void LeftOutRepairs::check(std::span<const std::string_view> of_texts) const {
  for (const std::string& name : names_) {
    if (!is_among(kRepairs, name) && !is_among(of_texts, name))
      throw_compile_error(kLeaveOut, " names ", name, ", which is no repair");
  }
}

}  // namespace torch_slang
