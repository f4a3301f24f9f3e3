#include "compiler/source/source_tokens.h"

#include <algorithm>
#include <cctype>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

}  // namespace

SourceTokens::SourceTokens(const std::string& source) {
  size_t line = 1;
  for (const Token& token : split_tokens(source)) {
    if (is_code(token)) tokens_.push_back({token.text, line});
    line += static_cast<size_t>(std::count(token.text.begin(), token.text.end(), '\n'));
  }
}

bool SourceTokens::is_name(size_t at) const {
  const std::string_view token = (*this)[at];
  return !token.empty() && (std::isalpha(static_cast<unsigned char>(token[0])) != 0 || token[0] == '_');
}

bool SourceTokens::is_number(size_t at) const {
  const std::string_view token = (*this)[at];
  return !token.empty() &&
         (std::isdigit(static_cast<unsigned char>(token[0])) != 0 || (token[0] == '.' && token.size() > 1));
}

size_t SourceTokens::closing(size_t open) const {
  int depth = 0;
  for (size_t at = open; at < size(); ++at) {
    if (opens((*this)[at])) ++depth;
    if (closes((*this)[at]) && --depth == 0) return at;
  }
  return size();
}

size_t SourceTokens::opening(size_t close) const {
  int depth = 0;
  for (size_t at = close; at > 0; --at) {
    if (closes((*this)[at])) ++depth;
    if (opens((*this)[at]) && --depth == 0) return at;
  }
  return 0;
}

size_t SourceTokens::behind_angles(size_t at) const {
  if ((*this)[at] != "<") return at;
  for (int depth = 0; at < size() && (*this)[at] != ";" && (*this)[at] != "{"; ++at) {
    if ((*this)[at] == "<") ++depth;
    if ((*this)[at] == ">" && --depth == 0) return at + 1;
  }
  return at;
}

size_t SourceTokens::last_statement(size_t open) const {
  const size_t close = closing(open);
  size_t last = open + 1;
  for (size_t at = open + 1; at + 1 < close; ++at) {
    if ((*this)[at] == "{") at = closing(at);
    if ((*this)[at] == ";" || (*this)[at] == "}") last = at + 1;
    if ((*this)[at] == "(") at = closing(at);
  }
  return last;
}

}  // namespace torch_slang
