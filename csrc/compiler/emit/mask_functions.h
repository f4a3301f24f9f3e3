// The functions of emitted text through which Slang passes wave masks, for the pass of wave_masks.h. Each that asks for the active
// mask, or calls one that does, has the mask as its last parameter, and every call hands one over as its last argument.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

struct MaskFunction {
  const EmittedFunction* function;
  std::string_view mask;  // its mask parameter, if it has one
  std::vector<size_t> mask_calls = {};  // names of functions with a mask parameter, where they are called
  int calls = 0;  // from anywhere in the text
  bool ends_thread = false;  // once it returns its thread is done: a kernel, whose caller is the entry point
};

// All functions that are defined in the text, in its order.
std::vector<MaskFunction> functions_with_masks(const EmittedCode& code);

// The argument of a call that stands for the mask. `name`: the token of the function's name.
Span mask_argument(const EmittedCode& code, size_t name);

// C++ computes some operands only where they are wanted: a wave operation in one would differ from the Slang source. Throws
// UnknownForm if there is one.
void check_unconditional(const EmittedCode& code, const MaskFunction& function);

}  // namespace torch_slang
