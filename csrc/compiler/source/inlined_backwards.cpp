#include "compiler/source/inlined_backwards.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/text/code_names.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr std::string_view kInline = "ForceInline", kEarly = "__unsafeForceInlineEarly",
                           kBackward = "BackwardDerivative", kBackwardOf = "BackwardDerivativeOf";

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

class Source {
 public:
  explicit Source(const std::string& text) : text_(text), tokens_(split_tokens(text)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  // `backwards`: named in files that were read before; gets those that this one names.
  std::string changed(std::set<std::string>& backwards) {
    for (const std::string_view name : named_backwards()) backwards.emplace(name);
    std::string result = text_;
    const bool all = clear_macros(result);
    for (size_t at = 0; at < code_.size(); ++at) {
      if ((word(at) != kInline && word(at) != kEarly) || !(word(at - 1) == "[" || word(at - 1) == ",")) continue;
      const bool is_backward = backwards.count(std::string(function_behind(at))) > 0 || says_whose_backward(at);
      if (is_backward || (all && word(at) == kInline)) clear(at, result);
    }
    return result;
  }

 private:
  std::string_view word(size_t at) const { return at < code_.size() ? tokens_[code_[at]].text : std::string_view(); }
  bool is_name(size_t at) const { return tokens_[code_[at]].kind == TokenKind::Identifier; }

  // What a macro puts where is not known here: where one has a part in this, no function keeps its [ForceInline]. Whether so.
  bool clear_macros(std::string& result) const {
    bool found = false;
    for (const Token& token : tokens_) {
      if (token.kind != TokenKind::Directive || !has_a_part(token)) continue;
      found = true;
      const auto begin = static_cast<size_t>(token.text.data() - text_.data());
      for (const std::string_view attribute :
           {std::string_view("[__unsafeForceInlineEarly]"), std::string_view("[ForceInline]")}) {
        for (size_t at = 0; (at = token.text.find(attribute, at)) != std::string_view::npos; at += attribute.size()) {
          std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(begin + at), attribute.size(), ' ');
        }
      }
    }
    return found;
  }

  static bool has_a_part(const Token& directive) {
    NameSet names;
    add_code_names(directive.text.substr(1), names);
    return std::ranges::any_of(std::initializer_list<std::string_view>{kInline, kEarly, kBackward, kBackwardOf},
                               [&](std::string_view name) { return names.count(name) > 0; });
  }

  // In `[BackwardDerivative(outer.name<T>)]` each of the names.
  std::set<std::string_view> named_backwards() const {
    std::set<std::string_view> names;
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) != kBackward || word(at + 1) != "(") continue;
      for (at += 2; at < code_.size() && word(at) != ")"; ++at) {
        if (is_name(at)) names.insert(word(at));
      }
    }
    return names;
  }

  // The name of the function that the attribute at `at` belongs to: the first name behind it with parameters.
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
      if (word(begin) == kBackwardOf) return true;
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

std::string without_inlined_backwards(std::string source, std::set<std::string>& backwards) {
  return has(source, kBackward) || !backwards.empty() ? Source(source).changed(backwards) : source;
}

}  // namespace torch_slang
