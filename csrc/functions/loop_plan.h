// How the loop of one call goes through its elements, in two steps that hand a value on: what decides the kernel (LoopPlan), and
// with the kernel known, how many elements each thread and block does (LaunchPlan).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "functions/signature.h"
#include "operators/arguments.h"
#include "specialise/elementwise_variant.h"

namespace torch_slang {

using Strides = c10::SmallVector<int64_t, 6>;

// What a loop loads, stores, and gathers gradients for.
struct Operands {
  struct Source {
    int leaf;
    at::Tensor tensor;
    MapView::Access access;
    Strides strides;  // in bytes, by dimension of the broadcast shape
  };
  struct Wanted {
    int leaf;
    ElementwiseVariant::Gradient kind;
    Strides strides;  // of a new tensor like the argument, by dimension of the broadcast shape
    at::Tensor memory;
  };

  // The referenced objects must outlive this one. `shape`: what the arguments broadcast to.
  Operands(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments, c10::IntArrayRef shape);
  void load(int leaf, const at::Tensor& tensor);
  void want(int leaf);
  const Leaf& leaf(int index) const { return op.function.leaves[index]; }
  // In bytes; zero in dimensions that the tensor lacks or has one element in.
  Strides strides_in_shape(int leaf, const at::Tensor& tensor, c10::IntArrayRef strides) const;
  bool any_wanted(ElementwiseVariant::Gradient kind) const;

  const ElementwiseSignature& op;
  const OpKind kind;
  const Arguments& arguments;
  const c10::IntArrayRef shape;
  int64_t total = 1;  // elements
  ElementwiseVariant variant;  // of what else there is
  c10::SmallVector<Source, 8> sources;
  c10::SmallVector<std::pair<int, at::Tensor>, 4> stored;
  c10::SmallVector<Wanted, 4> wanted;

 private:
  MapView::Access classify(Source& source) const;
};

// The dimensions that a loop goes through: those of the broadcast shape, joined where every tensor allows it.
struct LoopShape {
  c10::SmallVector<int64_t, 6> sizes;  // outermost first; the last is the row's length. Never empty
  c10::SmallVector<Strides, 8> strides;  // of each tensor, in the units that were given
  size_t row_dims = 0;  // how many trailing dimensions of the broadcast shape make up a row

  int64_t columns() const { return sizes.back(); }
};

// `strides[t][d]` is tensor t's in dimension d of `shape`, zero where it is broadcast. Joined sizes stay below 2^32.
LoopShape join_dimensions(c10::IntArrayRef shape, c10::ArrayRef<Strides> strides);

struct LoopPlan {
  bool is_tiled = false;  // by rows and columns, since strides matter
  LoopShape shape;  // if it is: of the sources, then of the partial gradients
  int lanes = 1;  // elements that a thread does at a time
};
// Sources that do not suit are copied, and kinds of wanted gradients become more exact. `sees_tensors`: some are seen whole.
LoopPlan plan_loop(Operands& operands, bool sees_tensors);

struct LaunchPlan {
  int64_t blocks = 0;
  // The tiles of rows and columns that blocks of a GPU take.
  int64_t rows = 0;
  uint32_t width_log2 = 0;  // threads beside each other in a row
  uint32_t columns = 0;  // tiles beside each other
  uint32_t rows_each = 1;  // rows that a thread takes, one after the other

  int64_t rows_at_once() const { return kMapThreads >> width_log2; }
  int64_t row_parts() const;  // sums of a row that stand beside each other
  int64_t column_parts() const;
};
// `has_few`: threads keep sums of whole tensors' gradients.
LaunchPlan plan_launch(const Operands& operands, const LoopPlan& loop, const Kernel& kernel, bool has_few);

}  // namespace torch_slang
