#include "compiler/source/early_inlining.h"

#include <string_view>

#include "compiler/source/source_tokens.h"

namespace torch_slang {
namespace {

constexpr std::string_view kMark = ", __unsafeForceInlineEarly";

class Functions {
 public:
  explicit Functions(const std::string& source) : source_(source), tokens_(source) {}

  std::string marked() const {
    std::string result;
    size_t copied = 0;
    for (size_t at = 1; at < tokens_.size(); ++at) {
      if (!is_attribute(at) || !returns_at_the_end(at)) continue;
      const auto end = static_cast<size_t>(tokens_[at].data() - source_.data()) + tokens_[at].size();
      result += source_.substr(copied, end - copied) + std::string(kMark);
      copied = end;
    }
    return result + source_.substr(copied);
  }

 private:
  std::string_view word(size_t at) const { return tokens_[at]; }

  bool is_attribute(size_t at) const {
    const bool differentiable = word(at) == "Differentiable" || word(at) == "BackwardDifferentiable";
    return differentiable && (word(at - 1) == "[" || word(at - 1) == ",") &&
           (word(at + 1) == "]" || word(at + 1) == ",");
  }

  // The function that the attribute belongs to has a body, in which no `return` but the last statement's stands.
  bool returns_at_the_end(size_t attribute) const {
    size_t open = attribute;
    while (open < tokens_.size() && word(open) != "{" && word(open) != ";") {
      open = word(open) == "(" ? tokens_.closing(open) + 1 : open + 1;
    }
    if (word(open) != "{") return false;
    const size_t close = tokens_.closing(open);
    if (close >= tokens_.size()) return false;
    const size_t last = tokens_.last_statement(open);
    for (size_t at = open + 1; at < close; ++at) {
      if (word(at) == "return" && at != last) return false;
    }
    return true;
  }

  const std::string& source_;
  const SourceTokens tokens_;
};

}  // namespace

std::string with_early_inlining(const std::string& source) { return Functions(source).marked(); }

}  // namespace torch_slang
