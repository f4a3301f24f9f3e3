// What a pass makes of a text.
#pragma once

#include <string>
#include <utility>

#include "compiler/ctext/code.h"

namespace torch_slang {

inline std::string rewritten(int (*pass)(Code&), std::string text) {
  Code code(std::move(text));
  pass(code);
  return code.edited();
}

template <class... Given>
std::string rewritten(int (*pass)(std::string&, Given...), std::string text, Given... given) {
  pass(text, given...);
  return text;
}

}  // namespace torch_slang
