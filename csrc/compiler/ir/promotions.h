// Numbers beside vectors and matrices, made vectors and matrices before Slang makes derivatives.
//
// Note [promotions]
//   `a * x` of a number and a vector is one instruction to Slang, whose operands have two shapes. When the reverse of it is made,
//   the number is promoted to a vector where it is *defined*, not where it is used (safeSetInsertAfterInst in
//   slang-ir-autodiff-transpose.cpp). For a parameter that is a point which the reverse has passed already, so the gradient of
//   the number, or of the vector, is lost without a word; for a number that a loop carries it is one that does not dominate the end of the reverse. (Slang's
//   issues 6154 and 12071; right from v2026.16 on.) Here every such operand is promoted by an instruction of its own, as
//   `float3(a) * x` would, in the module's serialized instructions: behind Slang's type checker, so whatever the
//   source looks like, and before any derivative is made.
//
// Note [conversions]
//   `double3(a)` of a float, written or implied, calls a constructor of Slang's core that is [TreatAsDifferentiable], and `double2x2(a)` one
//   that calls IFloat's constructor, whose parameter has no derivative: the gradient of `a` is 0. Those calls become what the
//   constructors do: a promotion and a cast, which have derivatives.
//
// Note [types of indices]
//   An `int i` of a differentiable function has the type `no_diff int`, and `i + 0` has the type int, so Slang takes them for two indices
//   until derivatives are made: it assigns the gradients of `m[i + 0]` and `m[i]` one behind the other (Note [added gradients]). Then it
//   sees that they are one, and the first assignment is lost before there is a text. No type of whole numbers needs
//   `no_diff`; without it the two are one index from the beginning, and Slang adds.
#pragma once

#include "compiler/ir/module_edits.h"

namespace torch_slang {

void promote_operands(ModuleEdits& module);  // Note [promotions]
void replace_conversions(ModuleEdits& module);  // Note [conversions]
void drop_attributes_of_constants(ModuleEdits& module);  // Note [types of indices]

}  // namespace torch_slang
