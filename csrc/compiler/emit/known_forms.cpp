#include "compiler/emit/known_forms.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string>

#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

constexpr std::string_view kSlangs = "s_";  // begins the names of functions that Slang makes for derivatives
constexpr size_t kShown = 12;  // tokens

}  // namespace

void refuse_form(const EmittedCode& code, size_t at, const std::string& place, const std::string& why) {
  size_t begin = std::min(at, code.size() - 1);
  while (begin > 0 && at - begin < kShown / 2 && code[begin - 1] != ";" && code[begin - 1] != "{" &&
         code[begin - 1] != "}") {
    --begin;
  }
  size_t end = begin;
  while (end < code.size() && end < begin + kShown && code[end] != ";") ++end;
  throw RefusedText{c10::str("this version of Slang writes CUDA text in a form that torch_slang does not know: `",
                             code.text_without_spaces({begin, end}), end == begin + kShown ? " ...`" : "`",
                             place.empty() ? "" : " at " + place, ". ", why)};
}

void refuse_unknown_forms(const EmittedCode& code, Known where) {
  if (where == Known::Nowhere) return;
  const auto refuse = [&](size_t at) {
    refuse_form(code, at, code.said_place(std::min(at, code.size() - 1)), "Its derivatives could not be checked");
  };
  if (code.unknown()) refuse(code.unknown()->at);
  for (const EmittedFunction& function : code.functions()) {
    if (function.unknown && (where == Known::Everywhere || function.name.starts_with(kSlangs)))
      refuse(function.unknown->at);
  }
}

}  // namespace torch_slang
