#include "compiler/emit/emitted_text.h"

#include <algorithm>

namespace torch_slang {
namespace {

// Blank lines in front of the first declaration.
size_t blank_size(std::string_view text) {
  const size_t size = text.find_first_not_of(" \n");
  return size != std::string_view::npos && is_line_directive(text.substr(size)) ? size : 0;
}

size_t file_scope_size(const Code& code) {
  const auto is_line = [](const Token& token) { return read_line_directive(token).has_value(); };
  const auto first = std::ranges::find_if(code.tokens(), is_line);
  return first == code.tokens().end() ? 0 : static_cast<size_t>(first->text.data() - code.text().data());
}

}  // namespace

EmittedText::EmittedText(std::string emitted, Texts texts, Differentials differentials)
    : emitted_(std::move(emitted)),
      differentials_(differentials),
      body_(emitted_, texts == Texts::Kernel ? blank_size(emitted_) : 0) {
  const size_t size = texts == Texts::Kernel ? file_scope_size(code()) : 0;
  file_scope_.emplace(body_.substr(0, size));
  if (size == 0) return;
  body_.erase(0, size);
  code_.reset();
}

}  // namespace torch_slang
