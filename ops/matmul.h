// What the files of the matrix product share. Any thread may call any of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "dispatch/registry.h"

namespace torch_slang::product {

using Tensor = at::Tensor;

// slang::mm in the dispatcher: call() goes through all of it, as a user's call does.
const c10::TypedOperatorHandle<Tensor(const Tensor&, const Tensor&)>& mm();

// slang::mm under autograd: records a node and carries tangents of the forward mode along.
Tensor mm_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b);

// The kernels of one product, each with tiles of its own: for halves, for float32 and float64, and for float32 whose
// operands may be rounded to TF32.
struct ProductKernels {
  ProductKernels(const std::string& ns, const std::string& name);  // "matrix_product", "matrix_product_wide", ...
  bool are_there() const { return halves != nullptr && wide != nullptr && tf32 != nullptr; }
  const RegisteredFamily& of(const Tensor& a) const;

  const RegisteredFamily *halves, *wide, *tf32;
};

// Whether a GPU can fetch tiles of these matrices, [B, M, N], by itself: the kernel copies others element by element, which takes
// ten times as long.
bool lies_in_words(const Tensor& matrices);
// Matrices of halves whose tiles a GPU can fetch by itself: these, or a copy with rows (or columns, where those are closer
// together) padded to whole words.
Tensor in_words(const Tensor& matrices);

// Who asks, and what its user calls the operands: for messages.
struct Names {
  const char* op;
  const char* a = "a";
  const char* b = "b";
};

// Throw where operands cannot be multiplied. Sizes may be symbolic. `check_mm`: [M, K] x [K, N] or [B, M, K] x [B, K, N].
// `check_batches`: the latter alone. `check_matmul`: whatever torch.matmul takes. All check_operands first.
void check_mm(const Tensor& a, const Tensor& b);
void check_batches(const char* op, const Tensor& a, const Tensor& b);
void check_matmul(const Names& names, const Tensor& a, const Tensor& b);
// A dense tensor that a backend takes; and one with the dtype and the device of an earlier argument.
void check_dense(const char* op, const char* name, const Tensor& tensor);
void check_like(const char* op, const char* name, const Tensor& tensor, const char* first_name, const Tensor& first);
void check_broadcasts(const char* op, const char* name, const Tensor& tensor, c10::SymIntArrayRef result);
// Dense floating-point tensors of one dtype on one device.
void check_operands(const Names& names, const Tensor& a, const Tensor& b);
// The summand of slang::dot: like a, and broadcastable to the result's sizes.
void check_summand(const Names& names, const Tensor& c, const Tensor& a, c10::SymIntArrayRef result);

}  // namespace torch_slang::product
