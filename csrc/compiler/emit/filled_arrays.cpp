#include "compiler/emit/filled_arrays.h"

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr size_t kLong = 32;  // elements

class FilledArrays {
 public:
  explicit FilledArrays(std::string_view body) : tokens_(split_tokens(body)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  std::string text() {
    std::string text;
    size_t copied = 0;  // tokens
    for (size_t at = 0; at < code_.size(); ++at) {
      const auto list = list_at(at);
      if (!list) continue;
      for (; copied < code_[list->open]; ++copied) text += tokens_[copied].text;
      text += "tsl_filled<" + words(at, list->name) + ">(" + words(list->open + 1, list->open + 1 + list->words) + ")";
      copied = code_[list->close] + 1;
      at = list->close;
      ++count_;
    }
    for (; copied < tokens_.size(); ++copied) text += tokens_[copied].text;
    return text;
  }

  int count() const { return count_; }

 private:
  // Places among the code's tokens.
  struct List {
    size_t name, open, close;
    size_t words;  // of one element
  };

  std::string_view word(size_t at) const { return at < code_.size() ? tokens_[code_[at]].text : std::string_view(); }

  std::string words(size_t begin, size_t end) const {
    std::string text;
    for (size_t at = begin; at < end; ++at) text.append(at > begin ? " " : "").append(word(at));
    return text;
  }

  // `TSL_AT(0, 80); FixedArray<T, 66> name = { value, value, ... };`
  std::optional<List> list_at(size_t at) const {
    if (word(at) != "FixedArray" || word(at + 1) != "<" || at == 0 || word(at - 1) != ";") return std::nullopt;
    size_t name = at + 2;
    for (int depth = 1; depth > 0 && name < code_.size(); ++name) {
      depth += word(name) == "<" ? 1 : word(name) == ">" ? -1 : word(name) == ">>" ? -2 : 0;
    }
    if (word(name + 1) != "=" || word(name + 2) != "{") return std::nullopt;
    List list = {name, name + 2, name + 2, value_from(name + 3)};
    if (list.words == 0) return std::nullopt;
    size_t elements = 0;
    for (size_t from = list.open + 1;; from += list.words + 1, ++elements) {
      if (words(from, from + list.words) != words(list.open + 1, list.open + 1 + list.words)) return std::nullopt;
      list.close = from + list.words;
      if (word(list.close) != ",") break;
    }
    return word(list.close) == "}" && elements + 1 >= kLong ? std::optional(list) : std::nullopt;
  }

  // How many words are a name or number, or `int(0)`; 0: it is another expression.
  size_t value_from(size_t at) const {
    const auto ends = [&](size_t end) { return word(end) == "," || word(end) == "}"; };
    const TokenKind kind = at < code_.size() ? tokens_[code_[at]].kind : TokenKind::Other;
    if (kind != TokenKind::Identifier && kind != TokenKind::Number) return 0;
    if (ends(at + 1)) return 1;
    const bool is_number = at + 2 < code_.size() && tokens_[code_[at + 2]].kind == TokenKind::Number;
    return is_number && word(at + 1) == "(" && word(at + 3) == ")" && ends(at + 4) ? 4 : 0;
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;
  int count_ = 0;
};

}  // namespace

int fill_arrays(std::string& body) {
  FilledArrays arrays(body);
  std::string text = arrays.text();
  if (arrays.count() > 0) body = std::move(text);
  return arrays.count();
}

}  // namespace torch_slang
