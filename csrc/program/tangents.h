// The function behind the operator `<name>_jvp`: it takes the arguments of a differentiable kernel or plain function, then a
// tangent for each differentiable one, and gives the tangents of the differentiable outputs. To the run-time it is a
// function like any other: its backward, which is a second derivative of the original, comes with everything that
// backwards have (broadcasting, ways of gathering, masks).
#pragma once

#include <optional>
#include <string>

#include "program/program.h"

namespace torch_slang {

// Named `name`. Its leaves say where they come from (Leaf::origin). Of a kernel, they begin with the kernel's own, with the
// same indices and places in the argument block; outputs are hidden. Of a plain function, they begin with its inputs.
// None without a forward derivative, of functions that see tensors whole, or where nothing that comes out depends differentiably on what goes in.
std::optional<Function> tangents_function(const Function& function, const std::string& name);

// The same of a plain function, with its results behind the tangents and without a backward: Note [dual calls] in
// dispatch/dual_call.h. What both have is the same leaf, and one text serves both.
std::optional<Function> dual_function(const Function& function, const std::string& name);

// Defines of requests for derivatives of tangents, for sources that Slang refuses otherwise, or at which it crashes: functions are
// inlined before derivatives are made (Note [functions inlined early] in compiler/source/early_inlining.h), structs stay as they
// are (Note [constructors] in compiler/source/constructors.h), and so do functions that return early (Note [single exits] in
// compiler/source/single_exits.h).
inline constexpr const char* kInlineEarly = "TORCH_SLANG_INLINE_EARLY";
inline constexpr const char* kKeepStructs = "TORCH_SLANG_KEEP_STRUCTS";
inline constexpr const char* kKeepReturns = "TORCH_SLANG_KEEP_RETURNS";

}  // namespace torch_slang
