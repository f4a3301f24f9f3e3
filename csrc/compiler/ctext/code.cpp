#include "compiler/ctext/code.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace torch_slang {
namespace {

bool closes(std::string_view token) { return token == ")" || token == "]" || token == "}"; }

}  // namespace

bool opens(std::string_view token) { return token == "(" || token == "[" || token == "{"; }

Code::Code(std::string text) : text_(std::move(text)), tokens_(split_tokens(text_)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (is_code(tokens_[i])) places_.push_back(i);
  }
}

std::string Code::text_without_spaces(Span span) const {
  std::string text;
  for (size_t at = span.begin; at < span.end; ++at) {
    if (at > span.begin && is_name(at - 1) && (is_name(at) || is_number(at))) text += ' ';
    text += (*this)[at];
  }
  return text;
}

// An address is an argument where a comma or the call's bracket stands before it. `&x->field` of a pointer is the caller's.
std::vector<std::string> Code::handed_on(Span span) const {
  std::vector<std::string> found;
  for (size_t at = span.begin + 1; at + 2 < span.end; ++at) {
    const std::string_view before = (*this)[at - 1];
    if ((*this)[at] != "&" || !is_name(at + 1)) continue;
    const bool of_call =
        before == "," || (before == "(" && at >= span.begin + 2 && is_name(at - 2) && (*this)[at - 2] != kElement);
    if (of_call) found.emplace_back((*this)[at + 1]);
  }
  return found;
}

size_t Code::closing(size_t open, size_t end) const {
  int depth = 0;
  for (size_t at = open; at < end; ++at) {
    if (opens((*this)[at])) ++depth;
    if (closes((*this)[at]) && --depth == 0) return at;
  }
  return end;
}

size_t Code::closing_angle(size_t open, size_t end) const {
  int depth = 0;
  for (size_t at = open; at < end; ++at) {
    depth += (*this)[at] == "<" ? 1 : (*this)[at] == ">" ? -1 : 0;
    if (depth == 0) return at;
  }
  return end;
}

std::string Code::said_place(size_t at) const {
  constexpr std::string_view kLine = "#line ";
  std::string_view line;
  for (size_t i = places_[at]; i-- > 0;) {
    if (tokens_[i].kind != TokenKind::Directive || !tokens_[i].text.starts_with(kLine)) continue;
    const std::string_view rest = tokens_[i].text.substr(kLine.size());
    if (line.empty()) line = rest.substr(0, rest.find(' '));
    const size_t quote = rest.find('"');
    if (quote == std::string_view::npos) continue;  // of the file that an earlier one names
    return std::string(rest.substr(quote + 1, rest.rfind('"') - quote - 1)) + ":" + std::string(line);
  }
  return {};
}

void Code::replace(Span span, std::string text) { edits_.push_back({places_[span.begin], span, std::move(text)}); }

void Code::insert(size_t before, const std::string& text) { replace({before, before}, text); }

void Code::insert_behind(size_t at, const std::string& text) { edits_.push_back({places_[at] + 1, {at, at}, text}); }

std::string Code::edited() const {
  std::vector<Edit> edits = edits_;
  // Insertions before the replacements there.
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return a.at != b.at ? a.at < b.at : a.span.size() == 0 && b.span.size() > 0;
  });
  std::string text;
  size_t token = 0;
  for (const Edit& edit : edits) {
    TORCH_INTERNAL_ASSERT(token <= edit.at, "two passes change the same part of a text, one of them to: ", edit.text);
    for (; token < edit.at; ++token) text += tokens_[token].text;
    text += edit.text;
    for (; edit.span.size() > 0 && token <= places_[edit.span.end - 1]; ++token) {
      if (tokens_[token].kind == TokenKind::Directive) text += "\n" + std::string(tokens_[token].text) + "\n";
    }
  }
  for (; token < tokens_.size(); ++token) text += tokens_[token].text;
  return text;
}

}  // namespace torch_slang
