// The arguments of one call, by leaf: read from the dispatcher's stack and checked. Shared by real launches and Meta, so that
// both refuse the same with the same words. Everything wrong throws before anything is allocated or runs.
//
// Kernels check theirs in kernels/arguments.h, plain functions in functions/arguments.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/DimVector.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "operators/signature.h"

namespace torch_slang {

struct Arguments {
  c10::SmallVector<at::Tensor, 8> tensors;  // by leaf; undefined if it is not a tensor argument
  // By leaf: of outputs in a backward, of all in a launch, or tangents. Empty in a forward.
  c10::SmallVector<at::Tensor, 8> gradients;
  c10::SmallVector<const c10::IValue*, 8> numbers;  // by leaf; null if it is not a number
  c10::SmallVector<bool, 4> mask;  // by differentiable argument; empty unless a backward
  c10::SmallVector<int64_t, 3> block_size, grid_size;  // empty unless a launch
  std::vector<ElementType> types;  // by type parameter
  std::vector<int64_t> sizes;  // by size parameter
  c10::Device device = c10::kCPU;
  c10::ArrayRef<c10::IValue> stack;  // that they were read from
  // The sizes of the dimensions that stand in front of every tensor's own, in a kernel's call under vmap: Note [samples] in
  // backend/samples.h. The stack of such a call has their number behind its arguments.
  c10::SymDimVector samples;

  bool has_samples() const { return !samples.empty(); }

  ElementType type_of(const Leaf& leaf) const;
  // The trailing dimensions of the leaf's tensors, which make an element.
  c10::SmallVector<int64_t, 4> element_shape(const Leaf& leaf) const;
  int64_t components(const Leaf& leaf) const;  // the numbers in an element
  c10::TensorOptions options(const Leaf& leaf) const;  // of a new tensor for this leaf
  // Whether one word tells where any addition goes: Note [addition targets] in prelude/abi.h.
  bool have_addition_targets(const Function& function, int views) const;

  // `use(leaf's index, tensor, role)` for each tensor that is given: the leaves' own, then gradients.
  template <class Use>
  void each_tensor(const Use& use) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].defined()) use(static_cast<int>(i), tensors[i], OpArgument::Role::Leaf);
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) use(static_cast<int>(i), gradients[i], OpArgument::Role::Gradient);
    }
  }
};

// By what the schema says of each argument. Types, sizes and the device are not known yet.
Arguments read_stack(const Signature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// Finds the device that all tensors are on, those excepted that may stay on the host beside tensors of a GPU. All must be
// strided.
void resolve_device(const Signature& op, OpKind kind, Arguments& arguments,
                    c10::function_ref<bool(const Leaf& leaf, const at::Tensor& tensor)> may_stay_on_host);

// As the operator calls an argument: "grad_y".
const std::string& name_of_argument(const Signature& op, OpKind kind, OpArgument meaning);

// The sizes of a tensor, as integers or symbols.
template <class Int>
c10::ArrayRef<Int> sizes_of(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return tensor.sizes();
  } else {
    return tensor.sym_sizes();
  }
}

std::string dtype_text(c10::ScalarType type);  // as the Program names it: "float64"
// What the dtype of an argument may be, in the words of a message.
struct ExpectedDtype {
  std::string argument;  // as the operator calls it
  c10::ArrayRef<ElementType> types;  // one of these
  std::string why;  // behind them: " (TensorView<int>)", ", the result's"
  bool converts_floats = false;  // the advice to convert is given for more than integers
};
// Every error that an argument has another dtype. `op`: qualified.
[[noreturn]] void throw_wrong_dtype(const std::string& op, const ExpectedDtype& expected, c10::ScalarType given);

}  // namespace torch_slang
