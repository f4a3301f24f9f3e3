#include "compiler/emit/polled_loops.h"

#include <c10/util/StringUtil.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class PolledLoops {
 public:
  explicit PolledLoops(const std::string& body) : tokens_(split_tokens(body)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  int count() const { return count_; }
  std::string all() {
    size_t next = 0;  // token
    for (size_t i = 0; i < code_.size(); ++i) {
      for (; next <= code_[i]; ++next) text_ += tokens_[next].text;
      if (i < 2 || !is(i - 2, {"for", "(", ";"})) continue;
      const bool is_bounded = at(i + 1) == "TSL_ITERATE";
      if (!is_bounded && at(i + 1) != ";") continue;
      text_ += c10::str("TSL_POLL(", place_before(i - 2), is_bounded ? ") && " : ")");
      ++count_;
    }
    for (; next < tokens_.size(); ++next) text_ += tokens_[next].text;
    return std::move(text_);
  }

 private:
  std::string_view at(size_t i) const { return i < code_.size() ? tokens_[code_[i]].text : std::string_view(); }
  bool is(size_t i, std::initializer_list<std::string_view> words) const {
    for (const std::string_view word : words) {
      if (at(i++) != word) return false;
    }
    return true;
  }

  // The arguments of the last TSL_AT before the loop, if that is in the same function; else `0, 0`.
  std::string place_before(size_t loop) const {
    for (size_t i = loop; i-- > 0;) {
      if (at(i) == "TSL_AT") return c10::str(at(i + 2), ", ", at(i + 4));
      if (at(i) == "__device__") break;
    }
    return "0, 0";
  }

  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // which of them are code
  std::string text_;
  int count_ = 0;
};

}  // namespace

int poll_loops(std::string& body) {
  PolledLoops loops(body);
  body = loops.all();
  return loops.count();
}

}  // namespace torch_slang
