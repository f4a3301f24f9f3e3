#include "compiler/emit/host_structs.h"

#include <vector>

#include "common/identifiers.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

class StructFlattener {
 public:
  std::string with_overloads(const std::string& text) {
    for (const Token& token : split_tokens(text)) {
      result_ += token.text;
      if (token.kind == TokenKind::Identifier) {
        identifier(std::string(token.text));
      } else if (token.kind == TokenKind::Other) {
        punctuation(token.text[0]);
      }
    }
    return std::move(result_);
  }

  int count() const { return count_; }

 private:
  void identifier(const std::string& word) {
    if (depth_ == 0 && last_ == "struct") {
      struct_ = word;
      fields_.clear();
      has_body_ = false;
    }
    last_ = word;
  }

  void punctuation(char c) {
    if (c == '{' && ++depth_ == 1) has_body_ = true;
    if (c == '}') --depth_;
    if (c == ';' && !struct_.empty()) {
      if (depth_ == 1) {
        fields_.push_back(last_);  // a declaration ends with the field's name
      } else if (depth_ == 0) {
        if (has_body_) close();
        struct_.clear();
      }
    }
    if (c != '{' && depth_ == 0) last_.clear();
  }

  // Of a differentiable view the kernel is given the tensor; the gradient behind it is no argument of a launch.
  void close() {
    const bool is_view = is_numbered(struct_) && struct_.substr(0, struct_.rfind('_')) == "DiffTensorView";
    if (is_view && !fields_.empty()) fields_.resize(1);
    result_ += " inline void tsl_flatten(tsl::Components& list, const " + struct_ + "& value) {";
    for (const std::string& field : fields_) result_ += " tsl_flatten(list, value." + field + ");";
    result_ += " }";
    ++count_;
  }

  std::string result_;
  std::string struct_;  // the one being read
  std::vector<std::string> fields_;
  bool has_body_ = false;
  std::string last_;  // identifier
  int depth_ = 0;
  int count_ = 0;
};

}  // namespace

int flatten_structs(std::string& text) {
  StructFlattener flattener;
  text = flattener.with_overloads(text);
  return flattener.count();
}

}  // namespace torch_slang
