#include "program/accumulation.h"

#include "common/enum_rows.h"

namespace torch_slang {
namespace {

using enum GradientMemory;

constexpr AccumulationRow kRows[] = {
    {.kind = Accumulation::Atomic,
     .name = "atomic",
     .view = "DiffTensorView",
     .memory = Own,
     .kept = "atomics",
     .is_ours = true,
     .may_sum_first = true,
     .may_join_lanes = true},
    {.kind = Accumulation::Replicated,
     .name = "replicated",
     .view = "DiffTensorViewR",
     .memory = Replicas,
     .kept = "replicas",
     .is_ours = true,
     .may_sum_first = true,
     .may_join_lanes = false},
    {.kind = Accumulation::Recorded,
     .name = "recorded",
     .view = "DiffTensorViewASR",
     .memory = Records,
     .kept = "records",
     .is_ours = true,
     .may_sum_first = false,
     .may_join_lanes = false},
    {.kind = Accumulation::Custom,
     .name = "custom",
     .view = nullptr,
     .memory = Own,
     .kept = "atomics",
     .is_ours = false,
     .may_sum_first = false,
     .may_join_lanes = false},
};

static_assert(has_each_kind(kRows, Accumulation::Custom));

}  // namespace

const AccumulationRow& row_of(Accumulation kind) { return kRows[static_cast<size_t>(kind)]; }

std::optional<Accumulation> accumulation_named(std::string_view name) {
  for (const AccumulationRow& row : kRows) {
    if (name == row.name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace torch_slang
