// A user's source as tokens of code, with what of its brackets and statements is Slang's own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/text/code.h"

namespace torch_slang {

class SourceCode : public Code {
 public:
  using Code::Code;

  // Behind the angle brackets that open at `at`; `at` if none do.
  size_t behind_angles(size_t at) const;
  // The angle bracket that opens the one at `close`, in the same statement; 0 if none does.
  size_t opening_angle(size_t close) const;
  // Each character of `tokens` is a token. The first one of them from `at` on, outside of brackets that open behind `at`; `end`
  // if there is none.
  size_t first_of(std::string_view tokens, size_t at, size_t end) const;
  size_t first_of(std::string_view tokens, size_t at) const { return first_of(tokens, at, size()); }
  // The same, outside of angle brackets too.
  size_t first_of_list(std::string_view tokens, size_t at, size_t end) const;
  // Where the declaration or statement begins that `at` is in, as far as `;` and braces tell.
  size_t declaration(size_t at) const;
  // Where the last statement of the block begins that opens at `open`.
  size_t last_statement(size_t open) const;
};

// A source to which changes are applied one after the other. Each change reads the text that the one before it made.
class ChangingSource {
 public:
  ChangingSource(std::string text, const std::string& file) { code_.emplace(std::move(text), file); }
  ChangingSource(const ChangingSource&) = delete;
  ChangingSource& operator=(const ChangingSource&) = delete;

  const SourceCode& code() const { return *code_; }
  const std::string& text() const { return code_->text(); }
  const std::string& file() const { return code_->file(); }
  void put(std::string text) {
    const std::string file = code_->file();
    code_.emplace(std::move(text), file);
  }

  // `change(SourceCode&, given...)` edits.
  template <class Change, class... Given>
  void apply(const Change& change, Given&&... given) {
    change(*code_, std::forward<Given>(given)...);
    if (code_->is_edited()) put(code_->edited());
  }

 private:
  std::optional<SourceCode> code_;
};

}  // namespace torch_slang
