// A pass over host functions: each struct gets an overload of tsl_flatten, which lists its fields for a launch or a result.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Puts each overload behind its struct, on the line where that ends. Counts the structs.
int flatten_structs(EmittedCode& code);

}  // namespace torch_slang
