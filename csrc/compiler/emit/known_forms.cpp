#include "compiler/emit/known_forms.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string>

#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

constexpr std::string_view kSlangs = "s_";  // begins the names of functions that Slang makes for derivatives
constexpr size_t kShown = 12;  // tokens

[[noreturn]] void refuse(const EmittedCode& code, size_t at) {
  size_t begin = std::min(at, code.size() - 1);
  while (begin > 0 && at - begin < kShown / 2 && code[begin - 1] != ";" && code[begin - 1] != "{" &&
         code[begin - 1] != "}") {
    --begin;
  }
  size_t end = begin;
  while (end < code.size() && end < begin + kShown && code[end] != ";") ++end;
  const std::string place = code.said_place(begin);
  throw RefusedText{c10::str("this version of Slang writes CUDA text in a form that torch_slang does not know: `",
                             code.text_without_spaces({begin, end}), end == begin + kShown ? " ...`" : "`",
                             place.empty() ? "" : " at " + place, ". Its derivatives could not be checked")};
}

}  // namespace

void refuse_unknown_forms(const EmittedCode& code, Known where) {
  if (where == Known::Nowhere) return;
  if (code.unknown()) refuse(code, code.unknown()->at);
  for (const EmittedFunction& function : code.functions()) {
    if (function.unknown && (where == Known::Everywhere || function.name.starts_with(kSlangs)))
      refuse(code, function.unknown->at);
  }
}

}  // namespace torch_slang
