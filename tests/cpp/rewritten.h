// What a pass makes of a text, and a change of a source.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "compiler/ctext/emitted_code.h"
#include "compiler/source/source_code.h"

namespace torch_slang {

// Of passes that see tokens, or a tree too.
template <std::derived_from<Code> AnyCode, class... Taken, class... Given>
std::string rewritten(int (*pass)(AnyCode&, Taken...), std::string text, Given&&... given) {
  AnyCode code(std::move(text));
  pass(code, given...);
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
