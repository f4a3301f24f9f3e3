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
#include "functions/loop_plan.h"
#include "functions/whole_tensors.h"
#include "operators/argument_block.h"
#include "specialise/kernel_key.h"
#include "specialise/loaded_kernel.h"

namespace torch_slang {

class ElementwiseCall {
 public:
  // The referenced objects must outlive this one. `shape`: what the arguments broadcast to.
  ElementwiseCall(const ElementwiseSignature& op, OpKind kind, const Arguments& arguments, c10::IntArrayRef shape);

  // What elements' values are loaded from: an argument, or an output's gradient. An argument may be seen whole.
  void load(int leaf, const at::Tensor& tensor);
  // An argument that the loop makes: Note [generated arguments] in functions/generated_arguments.h.
  void make(int leaf, const c10::IValue& list);
  // A contiguous tensor of the broadcast shape that takes an output.
  void store(int leaf, const at::Tensor& tensor);
  // The same in a backward: Note [double backward in one loop].
  void store_value(int leaf, const at::Tensor& tensor);
  // The gradient of a tensor that the function stores to, as it is after the call.
  void give(int leaf, const at::Tensor& gradient) { whole_.give(leaf, gradient); }
  // The gradient of this argument is wanted.
  void want(int leaf);

  // `find`: gives the kernel of a key.
  using FindKernel = c10::function_ref<std::shared_ptr<const LoadedKernel>(const KernelKey& key)>;
  void run(FindKernel find);
  // After `run`: like the argument.
  at::Tensor gradient(int leaf) const;

 private:
  KernelKey key(const LoopPlan& loop);

  Operands operands_;
  ArgumentBlock block_;
  WholeTensors whole_;
  std::vector<GeneratedPlaces> places_;
};

}  // namespace torch_slang
