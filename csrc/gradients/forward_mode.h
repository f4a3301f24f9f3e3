// Forward-mode derivatives: the tangents of what an operator has given, from those of its arguments.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/ArrayRef.h>

#include "operators/registered_op.h"

namespace torch_slang {

bool has_tangent(c10::ArrayRef<c10::IValue> arguments);

// Whether autograd records a call with these arguments for reverse mode, on the level that is current.
bool is_recorded(c10::ArrayRef<c10::IValue> arguments);

// Throws if the operator has no tangents to give: before anything runs.
void check_forward_mode(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// The function itself with tangents of its results, in place of a call of the kind Forward: Note [dual calls] in dispatch/dual_call.h.
// The arguments are the last on the stack. False, and nothing is done, where two calls give them.
bool call_with_tangents(const RegisteredFamily& family, const Operator& op, torch::jit::Stack* stack);

// `results`: those of the call, which get their tangents. Of the kinds Forward and Backward.
void set_tangents(const RegisteredFamily& family, const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments,
                  c10::ArrayRef<c10::IValue> results);

}  // namespace torch_slang
