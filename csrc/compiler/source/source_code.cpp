#include "compiler/source/source_code.h"

#include <algorithm>

namespace torch_slang {
namespace {

bool is_one_of(std::string_view tokens, std::string_view token) {
  return token.size() == 1 && tokens.find(token[0]) != std::string_view::npos;
}

}  // namespace

size_t SourceCode::behind_angles(size_t at) const {
  if ((*this)[at] != "<") return at;
  size_t end = at;
  while (end < size() && !is_one_of(";{", (*this)[end])) ++end;
  const size_t close = closing_angle(at, end);
  return close < end ? close + 1 : end;
}

size_t SourceCode::opening_angle(size_t close) const {
  int depth = 0;
  for (size_t at = close; at > 0 && !is_one_of(";{}", (*this)[at]); --at) {
    depth += (*this)[at] == ">" ? 1 : (*this)[at] == "<" ? -1 : 0;
    if (depth == 0) return at;
  }
  return 0;
}

size_t SourceCode::first_of(std::string_view tokens, size_t at, size_t end) const {
  while (at < end && !is_one_of(tokens, (*this)[at])) at = opens((*this)[at]) ? closing(at) + 1 : at + 1;
  return std::min(at, end);
}

size_t SourceCode::first_of_list(std::string_view tokens, size_t at, size_t end) const {
  while (at < end && !is_one_of(tokens, (*this)[at])) {
    at = (*this)[at] == "<" ? behind_angles(at) : opens((*this)[at]) ? closing(at) + 1 : at + 1;
  }
  return std::min(at, end);
}

size_t SourceCode::declaration(size_t at) const {
  while (at > 0 && !is_one_of(";{}", (*this)[at - 1])) --at;
  return at;
}

size_t SourceCode::last_statement(size_t open) const {
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
