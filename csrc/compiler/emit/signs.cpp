#include "compiler/emit/signs.h"

#include <initializer_list>
#include <vector>

#include "compiler/emit/statement_lines.h"
#include "compiler/emit/unset_contexts.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class Search {
 public:
  explicit Search(std::string_view text) : tokens_(split_tokens(text)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  Signs all() {
    for (size_t i = 0; i < code_.size(); ++i) look_at(i);
    signs_.lines = has_line_in_function();
    return signs_;
  }

 private:
  std::string_view at(size_t i) const { return i < code_.size() ? tokens_[code_[i]].text : std::string_view(); }
  bool is(size_t i, std::initializer_list<std::string_view> words) const {
    for (const std::string_view word : words) {
      if (at(i++) != word) return false;
    }
    return true;
  }

  void look_at(size_t i) {
    const std::string_view word = at(i);
    if (word == "__global__") ++signs_.entries;
    if (word.starts_with("WaveGetActiveMask")) signs_.masks = 1;
    if (word == "[" && at(i + 1).starts_with("_pc_") && at(i + 2) == "]") signs_.kept_iterations = 1;
    if ((word == "sizes" || word == "strides") && at(i - 1) == "." && at(i + 1) == "[") ++signs_.sizes;
    if (is(i, {"for", "(", ";", ";"}) || is(i, {"while", "(", "true"}) || is(i, {"do", "{"})) ++signs_.loops;
    if (is_context_of_access(word) && at(i + 2) == "=") {  // of something empty: `{}`, `T()`, `T{}`
      const size_t value = at(i + 3) == word ? i + 4 : i + 3;
      if (is(value, {"{", "}"}) || is(value, {"(", ")"})) ++signs_.cleared_contexts;
    }
  }

  // Whether a #line in the body of a function names a file of the user's.
  bool has_line_in_function() const {
    int depth = 0;
    std::string_view before;  // the last token of code
    for (const Token& token : tokens_) {
      if (depth > 0 && token.kind == TokenKind::Directive && names_users_file(token.text)) return true;
      if (!is_code(token)) continue;
      if (token.text == "{" && (depth > 0 || before == ")")) ++depth;
      if (token.text == "}" && depth > 0) --depth;
      before = token.text;
    }
    return false;
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // which of them are code
  Signs signs_;
};

}  // namespace

Signs signs_in(std::string_view text) { return Search(text).all(); }

}  // namespace torch_slang
