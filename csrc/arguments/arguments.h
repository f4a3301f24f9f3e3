// The arguments of one call, by leaf: read from the dispatcher's stack and checked for device and dtype. Shared by real
// launches and Meta. Everything wrong throws here, before anything is allocated or runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "signature/signature.h"

namespace torch_slang {

std::string dtype_text(c10::ScalarType type);  // as the Program names it: "float64"
// "; convert it before the call, n.to(torch.int32), if its values fit": for integers of another type, else nothing.
std::string how_to_convert(const std::string& name, c10::ScalarType given, ElementType expected);
std::string join_types(const std::vector<ElementType>& types);  // "float32 or float64"

struct Arguments {
  c10::SmallVector<at::Tensor, 8> tensors;  // by leaf; undefined if it is not a tensor argument
  c10::SmallVector<at::Tensor, 8> gradients;  // by leaf: of outputs in a backward, of all in a launch, or tangents
  c10::SmallVector<const c10::IValue*, 8> numbers;  // by leaf; null if it is not a number
  c10::SmallVector<bool, 4> mask;  // by differentiable argument; empty unless a backward
  c10::SmallVector<int64_t, 3> block_size, grid_size;  // empty unless a launch
  std::vector<ElementType> types;  // by type parameter
  c10::Device device = c10::kCPU;
  c10::ArrayRef<c10::IValue> stack;  // that they were read from

  c10::TensorOptions options(const Signature& op, int leaf) const;  // of a new tensor for this leaf
};

// The types that the tensor arguments decide, one for each type parameter, and their device; nothing is checked.
std::pair<std::vector<ElementType>, c10::Device> types_and_device(const Signature& op, OpKind kind,
                                                                  c10::ArrayRef<c10::IValue> stack);

// `stack` must outlive the result.
Arguments read_arguments(const Signature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// Binds the names of the shape language and checks every shape, gradients included.
template <class Int>
Bound<Int> bind_arguments(const Signature& op, OpKind kind, const Arguments& arguments);
extern template Bound<int64_t> bind_arguments(const Signature&, OpKind, const Arguments&);
extern template Bound<c10::SymInt> bind_arguments(const Signature&, OpKind, const Arguments&);

}  // namespace torch_slang
