#include "compiler/source/source_words.h"

#include <algorithm>
#include <cctype>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

}  // namespace

SourceWords::SourceWords(const std::string& source) {
  size_t line = 1;
  for (const Token& token : split_tokens(source)) {
    if (is_code(token)) words_.push_back({token.text, line});
    line += static_cast<size_t>(std::count(token.text.begin(), token.text.end(), '\n'));
  }
}

bool SourceWords::is_name(size_t at) const {
  const std::string_view word = (*this)[at];
  return !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_');
}

bool SourceWords::is_number(size_t at) const {
  const std::string_view word = (*this)[at];
  return !word.empty() &&
         (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || (word[0] == '.' && word.size() > 1));
}

size_t SourceWords::closing(size_t open) const {
  int depth = 0;
  for (size_t at = open; at < size(); ++at) {
    if (opens((*this)[at])) ++depth;
    if (closes((*this)[at]) && --depth == 0) return at;
  }
  return size();
}

size_t SourceWords::opening(size_t close) const {
  int depth = 0;
  for (size_t at = close; at > 0; --at) {
    if (closes((*this)[at])) ++depth;
    if (opens((*this)[at]) && --depth == 0) return at;
  }
  return 0;
}

}  // namespace torch_slang
