#include "compiler/source/block_sizes.h"

#include <string_view>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr std::string_view kName = "BlockSize";

class Attributes {
 public:
  explicit Attributes(const std::string& source) : source_(source), tokens_(split_tokens(source)) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (is_code(tokens_[i])) code_.push_back(i);
    }
  }

  std::string completed() {
    for (size_t at = 0; at < code_.size(); ++at) {
      if (text(at) == "[" && !is_index(at)) read_list(at + 1);
    }
    return result_ + source_.substr(copied_);
  }

 private:
  std::string_view text(size_t at) const { return at < code_.size() ? tokens_[code_[at]].text : std::string_view(); }

  // `x[`, `f()[`, `x[0][`: not `[` where attributes begin, behind which other attributes may be.
  bool is_index(size_t at) const {
    return at > 0 && (tokens_[code_[at - 1]].kind == TokenKind::Identifier || text(at - 1) == ")");
  }

  void read_list(size_t at) {
    for (int depth = 0; at < code_.size() && (depth > 0 || text(at) != "]"); ++at) {
      if (depth == 0 && text(at) == kName && text(at + 1) == "(") complete(at + 1);
      if (text(at) == "(" || text(at) == "[") ++depth;
      if (text(at) == ")" || text(at) == "]") --depth;
    }
  }

  // The arguments behind the parenthesis at `open`. For none, and for more than three, Slang has an error.
  void complete(size_t open) {
    int depth = 0, commas = 0;
    size_t at = open;
    for (; at < code_.size(); ++at) {
      if (text(at) == "(") ++depth;
      if (text(at) == ")" && --depth == 0) break;
      if (text(at) == "," && depth == 1) ++commas;
    }
    if (at == code_.size() || at == open + 1) return;
    const size_t place = static_cast<size_t>(text(at).data() - source_.data());
    result_ += source_.substr(copied_, place - copied_);
    for (; commas < 2; ++commas) result_ += ", 1";
    copied_ = place;
  }

  const std::string& source_;
  const std::vector<Token> tokens_;
  std::vector<size_t> code_;  // among the tokens
  std::string result_;
  size_t copied_ = 0;
};

}  // namespace

std::string with_whole_block_sizes(std::string source) {
  return source.find(kName) == std::string::npos ? source : Attributes(source).completed();
}

}  // namespace torch_slang
