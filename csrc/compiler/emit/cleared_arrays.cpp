#include "compiler/emit/cleared_arrays.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr size_t kLong = 256;  // elements

class ClearedArrays {
 public:
  explicit ClearedArrays(std::string_view body) : tokens_(split_tokens(body)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  std::string text() {
    find_zeros();
    std::string text;
    size_t copied = 0;  // tokens
    for (size_t at = 0; at < code_.size(); ++at) {
      const size_t open = list_of_array(at);
      const size_t close = open == 0 ? 0 : end_of_zero(open);
      if (close == 0 || elements(open, close) < kLong) continue;
      for (; copied <= code_[open]; ++copied) text += tokens_[copied].text;
      copied = code_[close];
      at = close;
      ++count_;
    }
    for (; copied < tokens_.size(); ++copied) text += tokens_[copied].text;
    return text;
  }

  int count() const { return count_; }

 private:
  std::string_view word(size_t at) const { return at < code_.size() ? tokens_[code_[at]].text : std::string_view(); }
  bool is_name(size_t at) const { return at < code_.size() && tokens_[code_[at]].kind == TokenKind::Identifier; }

  // Slang's own names that are given zeros, and nothing else: `_S160 = { 0.0f, make_float3 (0.0f) };`
  void find_zeros() {
    std::map<std::string_view, int> changes;
    for (size_t at = 0; at < code_.size(); ++at) {
      if (!is_name(at) || !word(at).starts_with("_S")) continue;
      const bool is_value = word(at + 1) == "," || word(at + 1) == "}" || word(at + 1) == ";" || word(at + 1) == ")";
      if (!is_value || (at > 0 && word(at - 1) == "&")) ++changes[word(at)];
    }
    for (size_t at = 0; at < code_.size(); ++at) {
      if (!is_name(at) || !word(at).starts_with("_S") || word(at + 1) != "=" || changes[word(at)] != 1) continue;
      const size_t end = end_of_zero(at + 2);
      if (end != 0 && word(end + 1) == ";") zeros_.insert(word(at));
    }
  }

  // The last word of an expression that is 0; 0: it is none.
  size_t end_of_zero(size_t at) const {
    const std::string_view first = word(at);
    if (first == "{") {
      while (true) {
        const size_t end = end_of_zero(at + 1);
        if (end == 0 || word(end + 1) == "}") return end == 0 ? 0 : end + 1;
        if (word(end + 1) != ",") return 0;
        at = end + 1;
      }
    }
    if (zeros_.count(first) > 0) return at;
    if (at < code_.size() && tokens_[code_[at]].kind == TokenKind::Number) return is_zero(first) ? at : 0;
    const bool converts = first == "int" || first == "uint" || first.starts_with("make_");
    if (!converts || word(at + 1) != "(") return 0;
    const size_t end = end_of_zero(at + 2);
    return end != 0 && word(end + 1) == ")" ? end + 1 : 0;
  }

  static bool is_zero(std::string_view number) {
    return number.find_first_not_of("0.fFuUlL") == std::string_view::npos;
  }

  // Of `TSL_AT(0, 80); FixedArray<T, 66> name = { ... };`; 0: it is no such statement.
  size_t list_of_array(size_t at) const {
    if (word(at) != "FixedArray" || word(at + 1) != "<" || at == 0 || word(at - 1) != ";") return 0;
    size_t name = at + 2;
    for (int depth = 1; depth > 0 && name < code_.size(); ++name) {
      depth += word(name) == "<" ? 1 : word(name) == ">" ? -1 : word(name) == ">>" ? -2 : 0;
    }
    return word(name + 1) == "=" && word(name + 2) == "{" ? name + 2 : 0;
  }

  size_t elements(size_t open, size_t close) const {
    return 1 + static_cast<size_t>(std::count_if(code_.begin() + static_cast<long>(open),
                                                 code_.begin() + static_cast<long>(close),
                                                 [&](size_t token) { return tokens_[token].text == ","; }));
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;
  std::set<std::string_view> zeros_;
  int count_ = 0;
};

}  // namespace

int clear_arrays(std::string& body) {
  ClearedArrays arrays(body);
  std::string text = arrays.text();
  if (arrays.count() > 0) body = std::move(text);
  return arrays.count();
}

}  // namespace torch_slang
