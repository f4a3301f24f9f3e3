#include "compiler/text/left_out_repairs.h"

#include <algorithm>
#include <array>

#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 21> kRepairs = {
    // Of Slang's instructions: compiler/ir.
    "promotions", "conversions", "types of indices", "computed beginnings", "quotients", "lost derivatives",
    // Of sources: compiler/source.
    "while loops", "single exits", "undeclared structs", "constant calls",
    // Of emitted text: compiler/emit.
    "missing names", "lost parts", "lost values", "shared stores", "context reads", "context values", "lost copies",
    "added gradients", "unset values", "wave masks", "bounded loops"};

}  // namespace

LeftOutRepairs::LeftOutRepairs(const CompileRequest& request) {
  for (const auto& [name, value] : request.defines) {
    if (name != kLeaveOut) continue;
    if (std::ranges::find(kRepairs, value) == kRepairs.end())
      throw_compile_error(kLeaveOut, " names ", value, ", which is no repair");
    names_.insert(value);
  }
}

}  // namespace torch_slang
