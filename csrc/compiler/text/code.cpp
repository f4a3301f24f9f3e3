#include "compiler/text/code.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace torch_slang {

Code::Code(std::string text, std::string file)
    : text_(std::move(text)), file_(std::move(file)), tokens_(split_tokens(text_)) {
  code_tokens_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (is_code(tokens_[i])) code_tokens_.push_back(i);
  }
}

std::string_view Code::text(Span span) const {
  if (span.size() == 0) return {};
  const char* const begin = (*this)[span.begin].data();
  const std::string_view last = (*this)[span.end - 1];
  return {begin, static_cast<size_t>(last.data() + last.size() - begin)};
}

std::string Code::text_in_front(size_t at) const {
  std::string text;
  for (const Token& token : before(at)) text += token.text;
  return text;
}

bool Code::has_directive(Span span) const {
  for (size_t i = token_of(span.begin); span.size() > 0 && i < token_of(span.end - 1); ++i) {
    if (tokens_[i].kind == TokenKind::Directive) return true;
  }
  return false;
}

std::span<const Token> Code::before(size_t at) const {
  const size_t begin = at == 0 || code_tokens_.empty() ? 0 : code_tokens_[at - 1] + 1;
  return std::span(tokens_).subspan(begin, token_of(at) - begin);
}

std::string Code::spaced_text(Span span) const {
  std::string text;
  for (size_t at = span.begin; at < span.end; ++at) {
    for (const Token& token : before(at)) text += token.kind == TokenKind::Directive ? "" : token.text;
    text += (*this)[at];
  }
  return text;
}

std::string Code::text_without_spaces(Span span) const {
  std::string text;
  for (size_t at = span.begin; at < span.end; ++at) {
    if (at > span.begin && is_name(at - 1) && (is_name(at) || is_number(at))) text += ' ';
    text += (*this)[at];
  }
  return text;
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

size_t Code::opening(size_t close) const {
  int depth = 0;
  for (size_t at = close; at > 0; --at) {
    if (closes((*this)[at])) ++depth;
    if (opens((*this)[at]) && --depth == 0) return at;
  }
  return 0;
}

std::string Code::said_place(size_t at) const {
  size_t line = 0;
  for (size_t i = code_tokens_[at]; i-- > 0;) {
    const auto said = read_line_directive(tokens_[i]);
    if (!said) continue;
    if (line == 0) line = said->line;
    if (!said->file.empty()) return std::string(said->file) + ":" + std::to_string(line);  // else of one before
  }
  return {};
}

std::string Code::location_of_token(size_t token) const {
  size_t line = 1;
  bool is_said = false;
  for (size_t i = token; i-- > 0;) {
    const auto said = read_line_directive(tokens_[i]);
    if (said && !is_said) line += said->line - 2;  // which is that of the line behind it
    if (said && !said->file.empty()) return std::string(said->file) + ":" + std::to_string(line);
    is_said = is_said || said;
    if (!is_said) line += static_cast<size_t>(std::count(tokens_[i].text.begin(), tokens_[i].text.end(), '\n'));
  }
  return file_ + ":" + std::to_string(line);
}

size_t Code::line(size_t at) const {
  return 1 + static_cast<size_t>(std::count(text_.data(), (*this)[at].data(), '\n'));
}

size_t Code::first_from_line(size_t line) const {
  size_t begin = 0;
  for (; line > 1 && begin < text_.size(); --line) begin = std::min(text_.find('\n', begin), text_.size() - 1) + 1;
  const auto stands_before = [&](size_t token) { return tokens_[token].text.data() < text_.data() + begin; };
  return static_cast<size_t>(std::ranges::partition_point(code_tokens_, stands_before) - code_tokens_.begin());
}

void Code::replace(Span span, std::string text) {
  const size_t begin = token_of(span.begin);
  edits_.push_back({begin, span.size() == 0 ? begin : code_tokens_[span.end - 1] + 1, std::move(text), false, by_});
}

void Code::replace_all(Span span, std::string text) {
  replace(span, std::move(text));
  edits_.back().keeps_directives = false;
}

void Code::insert(size_t before, const std::string& text) { replace({before, before}, text); }

void Code::insert_first(size_t before, const std::string& text) {
  edits_.push_back({token_of(before), token_of(before), text, /*first=*/true, by_});
}

void Code::insert_behind(size_t at, const std::string& text) {
  edits_.push_back({code_tokens_[at] + 1, code_tokens_[at] + 1, text, false, by_});
}

void Code::insert_above(size_t before, const std::string& text) {
  size_t at = before == 0 ? 0 : code_tokens_[before - 1] + 1;
  while (at < code_tokens_[before] && !tokens_[at].text.starts_with("#pragma")) ++at;
  edits_.push_back({at, at, text, false, by_});
}

void Code::replace_directive(size_t token, std::string text) {
  edits_.push_back({token, token + 1, std::move(text), false, by_});
}

std::string Code::edited() const {
  std::vector<const Edit*> edits;
  // Those that are first in their place stand in the other order.
  for (const Edit& edit : edits_) edits.insert(edit.first ? edits.begin() : edits.end(), &edit);
  // Insertions before the replacements there.
  std::stable_sort(edits.begin(), edits.end(), [](const Edit* a, const Edit* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->begin == a->end && b->begin < b->end;
  });
  std::string text;
  size_t token = 0;
  std::string_view last;
  for (const Edit* edit : edits) {
    TORCH_INTERNAL_ASSERT(token <= edit->begin, "two passes change the same part of a text, '", last, "' and '",
                          edit->by, "', at ", location_of_token(edit->begin), ", one of them to: ", edit->text);
    last = edit->by;
    for (; token < edit->begin; ++token) text += tokens_[token].text;
    text += edit->text;
    const bool goes =
        !edit->keeps_directives || (edit->begin < edit->end && tokens_[edit->begin].kind == TokenKind::Directive);
    for (; token < edit->end; ++token) {
      const Token& replaced = tokens_[token];
      if (!goes && replaced.kind == TokenKind::Directive) text += "\n" + std::string(replaced.text) + "\n";
    }
  }
  for (; token < tokens_.size(); ++token) text += tokens_[token].text;
  return text;
}

}  // namespace torch_slang
