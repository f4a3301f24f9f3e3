// What a pass makes of a text, and a change of a source.
#pragma once

#include <string>
#include <utility>

#include "compiler/source/source_code.h"

namespace torch_slang {

inline std::string rewritten(int (*pass)(Code&), std::string text) {
  Code code(std::move(text));
  pass(code);
  return code.edited();
}

template <class... Given>
std::string rewritten(void (*change)(SourceCode&, Given...), std::string source, Given... given) {
  SourceCode code(std::move(source), "a.slang");
  change(code, given...);
  return code.edited();
}

template <class... Given>
std::string rewritten(int (*pass)(std::string&, Given...), std::string text, Given... given) {
  pass(text, given...);
  return text;
}

}  // namespace torch_slang
