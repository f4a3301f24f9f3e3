// Words in a text of C, Slang or PTX. What a text does is told from whole identifiers, never from a part of one, which may be
// a user's name. In emitted text a user's name always has a number behind it (`gain_0`), which no name of the prelude, of
// CUDA or of C++ has.
#pragma once

#include <c10/util/FunctionRef.h>

#include <string_view>

namespace torch_slang {

bool is_word(char c);  // may stand in an identifier

// Whether one of the text's identifiers (numbers among them) is so.
bool any_identifier(std::string_view text, c10::function_ref<bool(std::string_view)> holds);
bool mentions_name(std::string_view text, std::string_view name);

// Of an identifier of emitted text: somebody's own, with the number behind it.
bool is_numbered(std::string_view identifier);

}  // namespace torch_slang
