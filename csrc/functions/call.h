// One launch of an elementwise function's loop: how each tensor is reached decides the kernel (its variant), and where it lies
// goes into the argument block. Note [map loops] in source/kernel_source.h.
//
// Note [double backward in one loop]
//   A double backward wants the results of f_jvp, and gradients of its inputs (Note [second derivatives] in
//   gradients/derived_calls.h). Two loops would read all arguments twice, and memory is what they wait for. So the text of
//   f_jvp_backward has the tangents too, where the loop takes such an output; C++ compilers remove them elsewhere.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>

#include "functions/arguments.h"
#include "functions/generated_arguments.h"
#include "functions/loop_shape.h"
#include "functions/whole_tensors.h"
#include "operators/argument_block.h"
#include "specialise/elementwise_variant.h"
#include "specialise/kernel_key.h"
#include "specialise/loaded_kernel.h"

namespace torch_slang {

class ElementwiseCall {
 public:
  // All references must outlive this object. `shape`: what the arguments broadcast to.
  ElementwiseCall(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments, c10::IntArrayRef shape);

  // What elements' values are loaded from: an argument, or an output's gradient. An argument may be seen whole.
  void load(int leaf, const at::Tensor& tensor);
  // An argument that the loop makes: Note [generated arguments] in functions/generated_arguments.h.
  void make(int leaf, const c10::IValue& list);
  // A contiguous tensor of the broadcast shape that takes an output.
  void store(int leaf, const at::Tensor& tensor);
  // The same in a backward: Note [double backward in one loop].
  void store_value(int leaf, const at::Tensor& tensor);
  // The gradient of what the function left in a tensor that it stores to.
  void give(int leaf, const at::Tensor& gradient) { whole_.give(leaf, gradient); }
  // The gradient of this argument is wanted.
  void want(int leaf);

  // `find`: gives the kernel of a key.
  using FindKernel = c10::function_ref<std::shared_ptr<const LoadedKernel>(const KernelKey& key)>;
  void run(FindKernel find);
  // After `run`: like the argument.
  at::Tensor gradient(int leaf) const;

 private:
  using Access = MapView::Access;
  using Gradient = ElementwiseVariant::Gradient;

  struct Source {
    int leaf;
    at::Tensor tensor;
    Access access;
    Strides strides;  // in bytes, by dimension of the broadcast shape
  };
  struct Wanted {
    int leaf;
    Gradient kind;
    Strides strides;  // of a new tensor like the argument, by dimension of the broadcast shape
    at::Tensor memory;
  };
  // The tiles of rows and columns that blocks of a GPU take.
  struct Tiles {
    int64_t rows = 0;
    uint32_t width_log2 = 0;  // threads beside each other in a row
    uint32_t columns = 0;  // tiles beside each other
    uint32_t rows_each = 1;  // rows that a thread takes, one after the other
    int64_t rows_at_once() const { return kMapThreads >> width_log2; }
    int64_t row_parts() const;  // sums of a row that stand beside each other
    int64_t column_parts() const;
  };

  size_t outer_rank(int leaf, const at::Tensor& tensor) const;
  Strides strides_in_shape(int leaf, const at::Tensor& tensor, c10::IntArrayRef strides) const;
  Access classify(Source& source) const;
  Wanted classify_gradient(int leaf) const;
  bool needs_rows() const;
  void tile();
  void join_dimensions_of_all();
  void use_copies();
  void classify_rows();
  int64_t numbers_of_an_element() const;  // that are loaded and stored
  int choose_lanes() const;
  KernelKey key();
  void choose_tiles();
  void allocate();
  std::vector<int64_t> memory_shape(const Wanted& wanted) const;

  void choose_blocks();
  void write_block();
  void write_source(const Source& source, const Strides* strides);
  void write_dims();

  const ElementwiseSignature& op_;
  const OpKind kind_;
  const Arguments& arguments_;
  const c10::IntArrayRef shape_;
  int64_t total_ = 1;
  ElementwiseVariant variant_;
  c10::SmallVector<Source, 8> sources_;
  c10::SmallVector<std::pair<int, at::Tensor>, 4> stored_;
  c10::SmallVector<Wanted, 4> wanted_;
  bool is_tiled_ = false;
  LoopShape loop_;  // where strides matter: of the sources, then of the partial gradients
  Tiles tiles_;
  std::shared_ptr<const LoadedKernel> kernel_;
  int64_t blocks_ = 0;
  ArgumentBlock block_;
  WholeTensors whole_;
  std::vector<GeneratedPlaces> places_;
};

}  // namespace torch_slang
