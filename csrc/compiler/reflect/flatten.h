// One parameter of a kernel becomes leaves of its descriptor: structs and arrays are taken apart, and each leaf gets its
// positions in the argument block (Note [argument block] in prelude/abi.h).
#pragma once

#include <slang.h>

#include <string>

#include "compiler/reflect/refusal.h"
#include "compiler/reflect/types.h"
#include "program/program.h"

namespace torch_slang {

// The index of the leaf among the function's. Throws Refusal if its name is taken.
int keep_leaf(Function& function, Leaf leaf);

// `default_text`: of the parameter's default value, as in parameter_texts.h. Throws Refusal, naming the parameter and
// the fault.
void add_parameter(Function& function, slang::VariableReflection* variable, const std::string& default_text,
                   const TypeReader& types, bool differentiable_function);

}  // namespace torch_slang
