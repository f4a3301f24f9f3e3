#include "program/accumulation.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>

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

constexpr size_t index_of(Accumulation kind) {
  switch (kind) {
    case Accumulation::Atomic: return 0;
    case Accumulation::Replicated: return 1;
    case Accumulation::Recorded: return 2;
    case Accumulation::Custom: return 3;
  }
  return std::size(kRows);
}
static_assert(std::all_of(std::begin(kRows), std::end(kRows),
                          [](const AccumulationRow& row) { return &kRows[index_of(row.kind)] == &row; }));

}  // namespace

const AccumulationRow& row_of(Accumulation kind) {
  const size_t index = index_of(kind);
  TORCH_INTERNAL_ASSERT(index < std::size(kRows), "accumulation ", index);
  return kRows[index];
}

std::optional<Accumulation> accumulation_named(std::string_view name) {
  for (const AccumulationRow& row : kRows) {
    if (name == row.name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace torch_slang
