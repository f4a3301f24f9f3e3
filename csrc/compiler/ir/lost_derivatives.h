// Calls, casts of bits, interfaces and tuples in differentiable functions whose derivative would be lost without a word.
//
// Note [lost derivatives]
//   Slang refuses a call of a function that is not differentiable where the value is used at once (E41022), but not where it goes
//   through memory: into an `out` parameter of the caller's, a field, an element, a component, or out of the call by an `out` or
//   `inout` argument. The derivative is zero there, or that of another value. Here such calls are found in the module's
//   instructions: one that is not `no_diff`, of arguments with derivatives, whose value, or what it leaves in memory,
//   may come to where a derivative is wanted: the function's results, or an argument of a differentiable call. Memory is known
//   by its variable, and by fields and constant indices; in which order it is written and read is not looked at.
//   A tuple has no derivative at all where one of its elements has none: `makeTuple(x, 3)` makes a constant of x. So what puts a value
//   with a derivative into one is an error too. (A struct would be declared: Note [undeclared structs].)
//   So is `bit_cast<double2>(m)` of a value with a derivative: Slang takes it for an operation on bits, which has none. Where bits are meant
//   one of the types is a whole number's, and the cast is left alone.
//   And so is a value with a derivative in a variable of an interface that is not IDifferentiable (`IShape s = line;`), where a method that
//   has a derivative is called of one: to Slang the struct is a constant there.
#pragma once

#include <string>

#include "compiler/ir/annotations.h"
#include "compiler/ir/module_edits.h"

namespace torch_slang {

// One error for each call, cast and tuple that loses a derivative, with its line; empty if there are none.
std::string lost_derivatives(const ModuleEdits& module, const Annotations& annotations);

}  // namespace torch_slang
