// Forward-mode derivatives: the tangents of what an operator has given, from those of its arguments.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include "dispatch/registered_op.h"

namespace torch_slang {

bool has_tangent(c10::ArrayRef<c10::IValue> arguments);

// Throws if the operator has no tangents to give: before anything runs.
void check_forward_mode(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments);

// `results`: those of the call, which get their tangents. Of the kinds Forward and Backward.
void set_tangents(const RegisteredFamily& family, const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments,
                  c10::ArrayRef<c10::IValue> results);

}  // namespace torch_slang
