#include "compiler/emit/left_out_definitions.h"

#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class DefinitionCutter {
 public:
  DefinitionCutter(const std::string& text, const std::set<std::string>& names)
      : tokens_(split_tokens(text)), names_(names) {}

  std::string rest() {
    while (at_ < tokens_.size()) {
      if (tokens_[at_].text == "SLANG_PRELUDE_EXPORT" && names_.count(name_of_definition()) > 0) {
        skip_definition();
        ++count_;
      } else {
        result_ += tokens_[at_++].text;
      }
    }
    return std::move(result_);
  }

  int count() const { return count_; }

 private:
  // The last identifier before the parameters. Types hold no parentheses.
  std::string name_of_definition() const {
    std::string_view name;
    for (size_t i = at_ + 1; i < tokens_.size() && tokens_[i].text != "("; ++i) {
      if (tokens_[i].kind == TokenKind::Identifier) name = tokens_[i].text;
    }
    return std::string(name);
  }

  void skip_definition() {
    int depth = 0;
    for (; at_ < tokens_.size(); ++at_) {
      if (tokens_[at_].text == "{") ++depth;
      if (tokens_[at_].text == "}" && --depth == 0) {
        ++at_;
        return;
      }
    }
  }

  const std::vector<Token> tokens_;
  const std::set<std::string>& names_;
  size_t at_ = 0;
  std::string result_;
  int count_ = 0;
};

}  // namespace

int leave_out_definitions(std::string& text, const std::set<std::string>& names) {
  DefinitionCutter cutter(text, names);
  text = cutter.rest();
  return cutter.count();
}

}  // namespace torch_slang
