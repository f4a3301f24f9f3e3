#include "compiler/source/early_inlining.h"

#include <string_view>

#include "compiler/source/source_words.h"

namespace torch_slang {
namespace {

constexpr std::string_view kMark = ", __unsafeForceInlineEarly";

class Functions {
 public:
  explicit Functions(const std::string& source) : source_(source), words_(source) {}

  std::string marked() const {
    std::string result;
    size_t copied = 0;
    for (size_t at = 1; at < words_.size(); ++at) {
      if (!is_attribute(at) || !returns_at_the_end(at)) continue;
      const auto end = static_cast<size_t>(words_[at].data() - source_.data()) + words_[at].size();
      result += source_.substr(copied, end - copied) + std::string(kMark);
      copied = end;
    }
    return result + source_.substr(copied);
  }

 private:
  std::string_view word(size_t at) const { return words_[at]; }

  bool is_attribute(size_t at) const {
    const bool differentiable = word(at) == "Differentiable" || word(at) == "BackwardDifferentiable";
    return differentiable && (word(at - 1) == "[" || word(at - 1) == ",") &&
           (word(at + 1) == "]" || word(at + 1) == ",");
  }

  // The function that the attribute belongs to has a body, in which no `return` but the last statement's stands.
  bool returns_at_the_end(size_t attribute) const {
    size_t open = attribute;
    while (open < words_.size() && word(open) != "{" && word(open) != ";") {
      open = word(open) == "(" ? words_.closing(open) + 1 : open + 1;
    }
    if (word(open) != "{") return false;
    const size_t close = words_.closing(open);
    if (close >= words_.size()) return false;
    size_t last = open + 1;  // where the statement begins that stands last in the body itself
    for (size_t at = open + 1; at + 1 < close; ++at) {
      if (word(at) == "{") at = words_.closing(at);
      if (word(at) == ";" || word(at) == "}") last = at + 1;
      if (word(at) == "(") at = words_.closing(at);
    }
    for (size_t at = open + 1; at < close; ++at) {
      if (word(at) == "return" && at != last) return false;
    }
    return true;
  }

  const std::string& source_;
  const SourceWords words_;
};

}  // namespace

std::string with_early_inlining(const std::string& source) { return Functions(source).marked(); }

}  // namespace torch_slang
