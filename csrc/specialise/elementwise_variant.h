// What an elementwise function's kernel is specialised for, beyond its types: how the loop reaches each tensor.
#pragma once

#include <c10/util/SmallVector.h>

#include <optional>
#include <utility>
#include <vector>

#include "program/enumerations.h"
#include "source/kernel_source.h"
#include "specialise/own_places.h"

namespace torch_slang {

struct ElementwiseVariant {
  // How a gradient is gathered.
  enum class Gradient : int8_t {
    Unwanted,
    Whole,  // of the broadcast shape, in the tensor's type
    Wide,  // the same, in the type that sums are kept in; summed afterwards
    Summed,  // of one element for all: a sum for each block
    RowSum,  // the same all along a row: sums of parts of rows
    ColumnSum,  // the same in all rows: sums of parts of columns
    Gathered,  // of a tensor that the function sees whole: it adds to it
    Few,  // the same, of so few numbers that each thread has sums of all
    Value,  // of an output: no gradient; the backward stores the value too
  };
  struct OfLeaf {
    ElementType type = ElementType::Float32;  // in memory
    std::optional<MapView::Access> access;  // none: the loop neither loads nor stores it
    Gradient gradient = Gradient::Unwanted;

    bool operator==(const OfLeaf&) const = default;
    bool is_whole() const { return gradient == Gradient::Gathered || gradient == Gradient::Few; }
  };

  c10::SmallVector<OfLeaf, 8> leaves;
  bool is_tiled = false;
  int lanes = 1;
  // The orders of a leaf's dimensions in which threads may own its elements, of leaves that have some: Note [own places].
  std::vector<std::pair<size_t, std::vector<PlaceDims>>> owned;

  bool operator==(const ElementwiseVariant&) const = default;
  const std::vector<PlaceDims>& owned_dim_orders(size_t leaf) const;
  void set(size_t leaf, ElementType type, MapView::Access access) {
    leaves[leaf].type = type;
    leaves[leaf].access = access;
  }
};

}  // namespace torch_slang
