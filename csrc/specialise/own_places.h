// Elements of a tensor that one element of a plain function's call has to itself.
//
// Note [own places]
//   A kernel's thread has elements to itself where a view's dimensions are those of the launch (Note [own elements] in
//   prelude/own.h). A plain function's loop has no such dimensions, but a generator's numbers may do as well: `x[i]`, where i is
//   a call_id(). So where a generator's numbers are different for each element of a call, the call offers them as indices into a
//   gradient, in the usual orders of dimensions. The kernel is compiled for the first order: it compares each index with those
//   numbers. Where the compiler folds all comparisons, the gradient needs no atomics. Where it does not, the compiled code has
//   the mark `shares`, and the next order is tried; after the last one additions are atomic.
#pragma once

#include <cstdint>
#include <vector>

#include "program/enumerations.h"

namespace torch_slang {

// A dimension of a view: its index is a component of a generated argument, or an element of the call has all of it.
struct PlaceDim {
  int leaf = -1;
  int component = 0;
  int64_t size = 0;  // if there is no leaf
  bool operator==(const PlaceDim&) const = default;
};
using PlaceDims = std::vector<PlaceDim>;  // of all dimensions, outermost first

// Of how few elements' gradients a thread keeps sums: Note [few elements] in prelude/map_sums.h.
constexpr int64_t kFewNumbers = 16;

// A generated argument whose components are places.
struct GeneratedPlaces {
  int leaf = -1;
  ElementType type = ElementType::Int32;
  std::vector<uint64_t> slots;  // Note [generated elements] in prelude/map_generated.h
};

// The orders of a view's dimensions to try in a call of so many elements, the likeliest first. `sizes`: of the view;
// `components`: numbers in an element of it.
std::vector<PlaceDims> owned_dim_orders(const std::vector<GeneratedPlaces>& places, int64_t elements,
                                        const std::vector<int64_t>& sizes, int64_t components);

// Whether the elements of the call have all elements of a view of these sizes among them.
bool covers(const std::vector<GeneratedPlaces>& places, int64_t elements, const PlaceDims& dims,
            const std::vector<int64_t>& sizes);

}  // namespace torch_slang
