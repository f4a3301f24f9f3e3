#include "functions/generated_arguments.h"

#include <c10/util/Exception.h>

#include <iterator>

#include "prelude/abi.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;

constexpr Access kKinds[] = {Access::Place, Access::Hash, Access::Random};

int64_t known(const c10::SymInt& number) { return number.guard_int(__FILE__, __LINE__); }

bool has_room(const Generated& generated, const Leaf& leaf) {
  const auto count = static_cast<int64_t>(generated.words.size());
  switch (generated.access) {
    case Access::Place: return count == kTslGeneratedWords * component_count(leaf.element);
    case Access::Hash: return count == kTslGeneratedWords - 1;
    default: return count == kTslGeneratedWords;
  }
}

bool names_dimensions(const Generated& generated) {
  for (size_t i = 0; i < generated.words.size(); i += kTslGeneratedWords) {
    const int64_t begin = known(generated.words[i]), end = known(generated.words[i + 1]);
    if (begin < 0 || end < begin || end > static_cast<int64_t>(generated.rank())) return false;
  }
  return true;
}

int64_t product(const c10::SymDimVector& shape, int64_t begin, int64_t end) {
  int64_t count = 1;
  for (int64_t d = begin; d < end; ++d) count *= known(shape[d]);
  return count;
}

}  // namespace

Generated read_generated(const std::string& op, const Leaf& leaf, const c10::IValue& list) {
  const std::vector<c10::SymInt> all = list.toSymIntVector();
  const auto count = static_cast<int64_t>(all.size());
  Generated generated;
  const int64_t rank = count < 2 ? -1 : known(all[0]);
  bool fits = rank >= 0 && rank + 2 <= count;
  if (fits) {
    const auto kind_at = all.begin() + 1 + rank;
    const int64_t kind = known(*kind_at);
    generated.shape.assign(all.begin() + 1, kind_at);
    generated.words.assign(kind_at + 1, all.end());
    fits = kind >= 0 && kind < static_cast<int64_t>(std::size(kKinds));
    if (fits) generated.access = kKinds[kind];
  }
  fits = fits && has_room(generated, leaf) && (generated.access != Access::Place || names_dimensions(generated));
  TORCH_CHECK(fits, op, ": expected ", leaf.name, " to be a generator's list of numbers, but got ", list);
  return generated;
}

std::vector<uint64_t> Generated::slots() const {
  const auto end_of_all = static_cast<int64_t>(rank());
  std::vector<uint64_t> slots = {static_cast<uint64_t>(product(shape, 0, end_of_all))};
  for (const c10::SymInt& word : words) slots.push_back(static_cast<uint64_t>(known(word)));
  if (access != Access::Place) return slots;
  for (size_t i = 1; i < slots.size(); i += kTslGeneratedWords) {
    const auto begin = static_cast<int64_t>(slots[i]), end = static_cast<int64_t>(slots[i + 1]);
    slots[i] = static_cast<uint64_t>(product(shape, end, end_of_all));
    slots[i + 1] = static_cast<uint64_t>(product(shape, begin, end));
  }
  return slots;
}

}  // namespace torch_slang
