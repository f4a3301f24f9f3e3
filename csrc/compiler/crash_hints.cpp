#include "compiler/crash_hints.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

class Hints {
 public:
  Hints(const std::string& source, const std::string& path) : path_(path) {
    size_t line = 1;
    for (const Token& token : split_tokens(source)) {
      if (is_code(token)) code_.push_back({token.text, line});
      line += static_cast<size_t>(std::count(token.text.begin(), token.text.end(), '\n'));
    }
  }

  std::string text() {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (word(at) == "while" && has_short_circuit(at + 1, closing(at + 1)))
        add(at, "`while` with && or || in its condition; write `while (true)` and leave it by `break`");
      if (word(at) == "for" && begins_with_element(at + 1))
        add(at, "a loop whose counter begins with an element; count from 0 and add the element");
      if (word(at) == "switch") look_for_fall_through(closing(at + 1) + 1);
      if (word(at) == "property" && is_differentiable(at)) add(at, "a `property` with derivatives; make it a function");
    }
    return text_.empty() ? text_ : "What is known to end it, and stands in this source:" + text_;
  }

 private:
  struct Word {
    std::string_view text;
    size_t line;
  };

  std::string_view word(size_t at) const { return at < code_.size() ? code_[at].text : std::string_view(); }

  size_t closing(size_t open) const {
    int depth = 0;
    for (size_t at = open; at < code_.size(); ++at) {
      if (word(at) == "(" || word(at) == "{") ++depth;
      if ((word(at) == ")" || word(at) == "}") && --depth == 0) return at;
    }
    return code_.size();
  }

  bool has_short_circuit(size_t begin, size_t end) const {
    for (size_t at = begin; at + 1 < end; ++at) {
      if ((word(at) == "&" || word(at) == "|") && word(at) == word(at + 1)) return true;
    }
    return false;
  }

  // `for (int k = starts[t]; ...`
  bool begins_with_element(size_t open) const {
    for (size_t at = open; at < closing(open) && word(at) != ";"; ++at) {
      if (word(at) == "[") return true;
    }
    return false;
  }

  bool is_differentiable(size_t at) const {
    while (at < code_.size() && word(at) != "{" && word(at) != ";") ++at;
    const size_t end = closing(at);
    for (; at < end; ++at) {
      if (word(at).ends_with("Differentiable")) return true;
    }
    return false;
  }

  // A case that has statements, the last of which does not leave.
  void look_for_fall_through(size_t open) {
    const size_t end = closing(open);
    int depth = 0;
    for (size_t at = open; at < end; ++at) {
      if (word(at) == "{") ++depth;
      if (word(at) == "}") --depth;
      const bool label = depth == 1 && (word(at) == "case" || word(at) == "default");
      if (label && word(at - 1) != "{" && word(at - 1) != ":" && !leaves(at))
        add(at, "a case into which the one before it falls; end each with `break`");
    }
  }

  // The statement that ends before `at`, perhaps in a block.
  bool leaves(size_t at) const {
    while (word(at - 1) == "}") --at;
    size_t begin = at - 1;
    while (begin > 0 && word(begin - 1) != ";" && word(begin - 1) != "{" && word(begin - 1) != "}" &&
           word(begin - 1) != ":")
      --begin;
    return word(begin) == "break" || word(begin) == "return" || word(begin) == "continue" || word(begin) == "discard";
  }

  void add(size_t at, const char* what) { text_ += c10::str("\n", path_, ":", code_[at].line, ": ", what); }

  const std::string path_;
  std::vector<Word> code_;
  std::string text_;
};

}  // namespace

std::string crash_hints(const std::string& source, const std::string& path) { return Hints(source, path).text(); }

}  // namespace torch_slang
