// The functions of emitted text through which Slang passes wave masks, for the pass of wave_masks.h. Each that asks for the active
// mask, or calls one that does, has the mask as its last parameter, and every call hands one over as its last argument.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/emit/statement_tree.h"

namespace torch_slang {

struct TextFunction {
  std::string_view name;
  TokenRange parameters, body;
  std::string_view mask;  // its mask parameter, if it has one
  std::vector<size_t> mask_calls;  // names of functions with a mask parameter, where they are called
  int calls = 0;  // from anywhere in the text
  bool ends_thread = false;  // once it returns its thread is done: a kernel, whose caller is the entry point
};

// All functions that are defined in the text, in its order.
std::vector<TextFunction> functions_with_masks(const std::vector<Token>& tokens);

// The argument of a call that stands for the mask. `name`: the token of the function's name.
TokenRange mask_argument(const std::vector<Token>& tokens, size_t name);

// C++ computes some operands only where they are wanted: a wave operation in one would differ from the Slang source. Throws
// UnknownStatement if there is one.
void check_unconditional(const std::vector<Token>& tokens, const TextFunction& function);

}  // namespace torch_slang
