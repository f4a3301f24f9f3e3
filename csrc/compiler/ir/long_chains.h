// Chains of calls, broken before Slang makes derivatives of them.
//
// Note [long chains]
//   In a derivative of Slang's each call of a differentiable function is an element of a tuple. Slang's specializer visits all
//   that is made of such an element once more, each time it visits the element (maybeSpecializeFoldableInst in
//   slang-ir-specialize.cpp; Slang's issue 12604): the visits double with each call in a chain, `y = sin(x); z = exp(y); ...`, and
//   24 calls take it minutes. It does not follow a value through memory. So a value that many chains of calls end in is
//   stored and loaded, by the library's `__kept`, which leaves nothing in compiled code. Of a struct each field is.
//   Loops with [ForceUnroll] are unrolled before derivatives are made: a call in one counts as often as it follows on itself.
//   Chains of up to ten calls stay as they are. So do chains of functions that return arrays, or structs with fields that are not
//   floats. So do chains in second derivatives, because Slang fails with an internal error where it differentiates `__kept` twice.
#pragma once

#include "compiler/ir/library_calls.h"
#include "compiler/ir/module_edits.h"

namespace torch_slang {

void break_long_chains(ModuleEdits& module, LibraryCalls& library);

}  // namespace torch_slang
