#include "specialise/own_places.h"

#include <algorithm>
#include <limits>

#include "prelude/abi.h"

namespace torch_slang {
namespace {

// In registers. Each size of free dimensions is a kernel of its own, so they are fewer than a kernel's.
constexpr int64_t kMostOwnNumbers = 16;

// How a component of a place is made: offset + stride * (element / divisor % size).
struct Digit {
  int component;
  uint64_t divisor, size;
  int64_t offset, stride;
};

Digit digit_of(const GeneratedPlaces& places, int component) {
  const uint64_t* words = places.slots.data() + 1 + static_cast<ptrdiff_t>(kTslGeneratedWords) * component;
  return {component, words[0], words[1], static_cast<int64_t>(words[2]), static_cast<int64_t>(words[3])};
}

// Those that are no constants, outermost first.
std::vector<Digit> moving_digits(const GeneratedPlaces& places) {
  std::vector<Digit> digits;
  const auto components = static_cast<int>((places.slots.size() - 1) / kTslGeneratedWords);
  for (int c = 0; c < components; ++c) {
    const Digit digit = digit_of(places, c);
    if (digit.stride != 0) digits.push_back(digit);
  }
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.divisor > b.divisor; });
  return digits;
}

// The largest index that the type holds; -1 for types that do not hold each index exactly.
int64_t largest_index(ElementType type) {
  switch (type) {
    case ElementType::Int32: return std::numeric_limits<int32_t>::max();
    case ElementType::UInt32:
    case ElementType::Int64:
    case ElementType::UInt64: return std::numeric_limits<uint32_t>::max();
    default: return -1;
  }
}

// Whether all of its values are indices, each different from the others.
bool is_exact(const Digit& digit, int64_t largest) {
  int64_t last = 0;
  if (digit.offset < 0 || digit.stride <= 0 || digit.size == 0) return false;
  if (digit.size > uint64_t{std::numeric_limits<uint32_t>::max()}) return false;
  if (__builtin_mul_overflow(digit.stride, static_cast<int64_t>(digit.size - 1), &last)) return false;
  return !__builtin_add_overflow(last, digit.offset, &last) && last <= largest;
}

// Whether each of the call's elements has digits of its own: the digits must be those of a mixed-radix number, with none missing.
bool tell_apart(const std::vector<Digit>& outermost_first, int64_t elements) {
  uint64_t next = 1;
  for (auto digit = outermost_first.rbegin(); digit != outermost_first.rend(); ++digit) {
    if (digit->size == 1) continue;
    if (digit->divisor != next || __builtin_mul_overflow(next, digit->size, &next)) return false;
  }
  return next >= static_cast<uint64_t>(elements);
}

}  // namespace

std::vector<PlaceDims> owned_dim_orders(const std::vector<GeneratedPlaces>& places, int64_t elements,
                                        const std::vector<int64_t>& sizes, int64_t components) {
  std::vector<PlaceDims> orders;
  for (const GeneratedPlaces& one : places) {
    std::vector<Digit> digits = moving_digits(one);
    if (digits.size() > sizes.size()) std::erase_if(digits, [](const Digit& digit) { return digit.size == 1; });
    if (digits.empty() || digits.size() > sizes.size()) continue;
    // Beyond the first so many elements the numbers begin again: the samples of vmap.
    if (one.slots[0] < static_cast<uint64_t>(elements) || !tell_apart(digits, elements)) continue;
    const int64_t largest = largest_index(one.type);
    if (!std::all_of(digits.begin(), digits.end(), [&](const Digit& digit) { return is_exact(digit, largest); }))
      continue;
    int64_t numbers = components;
    PlaceDims dims;
    for (const Digit& digit : digits) dims.push_back({one.leaf, digit.component, 0});
    for (size_t d = digits.size(); d < sizes.size(); ++d) {
      dims.push_back({-1, 0, sizes[d]});
      numbers = sizes[d] < 1 || sizes[d] > kMostOwnNumbers ? kMostOwnNumbers + 1 : numbers * sizes[d];
    }
    if (numbers > kMostOwnNumbers) continue;
    orders.push_back(dims);
    if (digits.size() == 1) continue;
    std::reverse(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(digits.size()));
    orders.push_back(std::move(dims));
  }
  return orders;
}

bool covers(const std::vector<GeneratedPlaces>& places, int64_t elements, const PlaceDims& dims,
            const std::vector<int64_t>& sizes) {
  uint64_t combinations = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].leaf < 0) continue;  // of its size
    const auto one = std::find_if(places.begin(), places.end(),
                                  [&](const GeneratedPlaces& made) { return made.leaf == dims[d].leaf; });
    const Digit digit = digit_of(*one, dims[d].component);
    if (digit.offset != 0 || digit.stride != 1 || digit.size < static_cast<uint64_t>(sizes[d])) return false;
    combinations *= digit.size;
  }
  return combinations == static_cast<uint64_t>(elements);
}

}  // namespace torch_slang
