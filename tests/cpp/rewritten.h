// What a pass makes of a text.
#pragma once

#include <string>
#include <utility>

namespace torch_slang {

template <class... Given>
std::string rewritten(int (*pass)(std::string&, Given...), std::string text, Given... given) {
  pass(text, given...);
  return text;
}

}  // namespace torch_slang
