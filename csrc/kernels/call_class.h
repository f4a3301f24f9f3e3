// The properties of a call that decide which variant is fastest: calls of one class are assumed to want the same variant.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "kernels/signature.h"
#include "tuning/known_choices.h"

namespace torch_slang {

// Numbers that are equal for calls of the same kind whose tensors have the same dtypes, devices and ranks, are contiguous
// or not alike, and have equal sizes when those are rounded up to powers of two; of numbers, those count that shapes and
// launches name. The first is the device's index; the others say nothing of this machine.
CallClass class_of(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

// "x: float32 [1024, 512], n: 8"
std::string describe_class(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack);

}  // namespace torch_slang
