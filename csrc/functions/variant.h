// What an elementwise function's kernel is specialised for, beyond its types: how the loop reaches each tensor.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "functions/signature.h"
#include "specialise/own_places.h"

namespace torch_slang {

// A variant as KernelKey holds it: for each leaf the letters of the type in memory, the access (MapView::Access) and the
// gradient's kind, then whether there are tiles, and lanes. Behind them, for each leaf that has some, the orders of
// its dimensions in which threads may own its elements: `;4=` (the leaf) and their text.
class ElementwiseVariant {
 public:
  // How a gradient is gathered.
  enum Gradient : char {
    Unwanted = '-',
    Whole = 'd',       // of the broadcast shape, in the tensor's type
    Wide = 'w',        // the same, in the type that sums are kept in; summed afterwards
    Summed = '+',      // of one element for all: a sum for each block
    RowSum = 'x',      // the same all along a row: sums of parts of rows
    ColumnSum = 'y',   // the same in all rows: sums of parts of columns
    Gathered = 'g',    // of a tensor that the function sees whole: it adds to it
    Few = 'f',         // the same, of so few numbers that each thread has sums of all
    Value = 'v',       // of an output: no gradient; the backward stores the value too
  };
  explicit ElementwiseVariant(size_t leaves) : text_(3 * leaves + 2, '-') {}
  explicit ElementwiseVariant(const std::string& text)
      : text_(text.substr(0, text.find(';'))), own_(text.substr(text_.size())) {}

  std::string text() const { return text_ + own_; }
  bool has(size_t leaf) const { return text_[3 * leaf + 1] != '-'; }
  ElementType type(size_t leaf) const { return static_cast<ElementType>(text_[3 * leaf] - 'a'); }
  MapView::Access access(size_t leaf) const { return static_cast<MapView::Access>(text_[3 * leaf + 1]); }
  Gradient gradient(size_t leaf) const { return static_cast<Gradient>(text_[3 * leaf + 2]); }
  bool is_whole(size_t leaf) const { return gradient(leaf) == Gathered || gradient(leaf) == Few; }
  std::vector<PlaceDims> owned_dim_orders(size_t leaf) const;  // Note [own places]; empty: none
  bool is_tiled() const { return text_[text_.size() - 2] == 't'; }
  int lanes() const { return text_.back() - '0'; }

  void set(size_t leaf, ElementType type, MapView::Access access) {
    text_[3 * leaf] = static_cast<char>('a' + static_cast<int>(type));
    text_[3 * leaf + 1] = static_cast<char>(access);
  }
  void set_gradient(size_t leaf, Gradient kind) { text_[3 * leaf + 2] = kind; }
  // Once for each leaf.
  void set_owned_dim_orders(size_t leaf, const std::vector<PlaceDims>& orders);
  void set_loop(bool is_tiled, int lanes) {
    text_[text_.size() - 2] = is_tiled ? 't' : '-';
    text_.back() = static_cast<char>('0' + lanes);
  }

 private:
  std::string text_, own_;
};

// Whether threads may keep sums of the gradient of a tensor that is seen whole.
bool may_be_few(const Leaf& leaf);

// Of a call whose tensors are all contiguous, of the broadcast shape and of the declared types; every gradient is wanted.
// `few`: tensors that are seen whole have few numbers.
ElementwiseVariant dense_variant(const ElementwiseSignature& op, OpKind kind, const std::vector<ElementType>& types,
                                 bool few = false);

// The loop of a variant: which views it loads and stores.
MapLoop map_loop(const ElementwiseSignature& op, OpKind kind, const ElementwiseVariant& variant,
                 const std::vector<int64_t>& sizes);

}  // namespace torch_slang
