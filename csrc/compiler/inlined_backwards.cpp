#include "compiler/inlined_backwards.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

constexpr std::string_view kInline = "ForceInline";

class Source {
 public:
  explicit Source(const std::string& text) : text_(text), tokens_(split_tokens(text)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  std::string changed() {
    std::string result = text_;
    const std::set<std::string_view> backwards = named_backwards();
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) != kInline || !(word(at - 1) == "[" || word(at - 1) == ",")) continue;
      if (backwards.count(function_behind(at)) > 0 || says_whose_backward(at)) clear(at, result);
    }
    return result;
  }

 private:
  std::string_view word(size_t at) const { return at < code_.size() ? tokens_[code_[at]].text : std::string_view(); }
  bool is_name(size_t at) const { return tokens_[code_[at]].kind == TokenKind::Identifier; }

  // In `[BackwardDerivative(outer.name<T>)]` each of the names.
  std::set<std::string_view> named_backwards() const {
    std::set<std::string_view> names;
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) != "BackwardDerivative" || word(at + 1) != "(") continue;
      for (at += 2; at < code_.size() && word(at) != ")"; ++at) {
        if (is_name(at)) names.insert(word(at));
      }
    }
    return names;
  }

  // The name of the function whose attribute stands at `at`: what its parameters, or those of its type, follow.
  std::string_view function_behind(size_t at) const {
    for (int lists = 1; at < code_.size(); ++at) {
      if (word(at) == "[") ++lists;
      if (word(at) == "]") --lists;
      if (lists == 0 && is_name(at) && word(at) != "__generic" && (word(at + 1) == "(" || word(at + 1) == "<")) {
        if (word(closing_angle(at + 1)) == "(") return word(at);
      }
    }
    return {};
  }

  // Behind the angle brackets at `at`; `at` if there are none.
  size_t closing_angle(size_t at) const {
    if (word(at) != "<") return at;
    for (int depth = 0; at < code_.size() && word(at) != ";" && word(at) != "{"; ++at) {
      if (word(at) == "<") ++depth;
      if (word(at) == ">" && --depth == 0) return at + 1;
    }
    return at;
  }

  // An attribute of the same declaration, before or behind.
  bool says_whose_backward(size_t at) const {
    const auto ends = [&](size_t i) { return word(i) == ";" || word(i) == "{" || word(i) == "}"; };
    size_t begin = at;
    while (begin > 0 && !ends(begin - 1)) --begin;
    for (; begin < code_.size() && !ends(begin); ++begin) {
      if (word(begin) == "BackwardDerivativeOf") return true;
    }
    return false;
  }

  // Of a list of one, the brackets too.
  void clear(size_t at, std::string& result) const {
    size_t first = at, last = at;
    if (word(at + 1) == ",") {
      last = at + 1;
    } else {
      first = at - 1;
      if (word(at - 1) == "[" && word(at + 1) == "]") last = at + 1;
    }
    const auto place = [&](size_t i) { return static_cast<size_t>(word(i).data() - text_.data()); };
    for (size_t i = first; i <= last; ++i) std::fill_n(result.begin() + place(i), word(i).size(), ' ');
  }

  const std::string& text_;
  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // among the tokens
};

}  // namespace

std::string without_inlined_backwards(std::string source) {
  if (source.find(kInline) == std::string::npos || source.find("BackwardDerivative") == std::string::npos)
    return source;
  return Source(source).changed();
}

}  // namespace torch_slang
