#include "compiler/own_derivatives.h"

#include <map>
#include <set>
#include <vector>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

bool is_code(const Token& token) {
  return token.kind != TokenKind::Space && token.kind != TokenKind::Comment && token.kind != TokenKind::Directive;
}

class Search {
 public:
  explicit Search(std::string_view source) {
    for (const Token& token : split_tokens(source)) {
      if (is_code(token)) code_.push_back(token);
    }
  }

  // Attributes stand in one or more [...] before a declaration; derivatives may also be given away from it, by
  // [BackwardDerivativeOf(f)] and [ForwardDerivativeOf(f)].
  std::map<std::string, bool> run() {
    while (at_ < code_.size()) {
      if (code_[at_].text == "[" && starts_declaration()) {
        take_declaration();
      } else {
        ++at_;
      }
    }
    std::map<std::string, bool> found;
    for (const auto& [name, inlined] : backward_only_) {
      if (forward_elsewhere_.count(name) == 0) found.emplace(name, inlined);
    }
    for (const std::string& name : backward_elsewhere_) {  // what attributes that one has is not known here
      if (forward_elsewhere_.count(name) + forward_.count(name) == 0) found.insert_or_assign(name, true);
    }
    return found;
  }

 private:
  bool starts_declaration() const {
    if (at_ == 0) return true;
    const std::string_view before = code_[at_ - 1].text;
    return before == ";" || before == "}" || before == "{" || before == "]" || before == ")";
  }

  void take_declaration() {
    bool own_backward = false, own_forward = false, inlined = false;
    while (at_ < code_.size() && code_[at_].text == "[") {
      int depth = 0;
      for (; at_ < code_.size(); ++at_) {
        const std::string_view text = code_[at_].text;
        if (text == "[") ++depth;
        if (text == "]" && --depth == 0) break;
        if (text == "BackwardDerivative") own_backward = true;
        if (text == "ForwardDerivative") own_forward = true;
        if (text == "ForceInline" || text == "__unsafeForceInlineEarly") inlined = true;
        if (text == "BackwardDerivativeOf") backward_elsewhere_.insert(argument());
        if (text == "ForwardDerivativeOf") forward_elsewhere_.insert(argument());
      }
      ++at_;
    }
    if (!own_backward && !own_forward) return;
    if (own_forward) {
      forward_.insert(declared_name());
    } else {
      backward_only_[declared_name()] |= inlined;
    }
  }

  // f of `BackwardDerivativeOf(f)`.
  std::string argument() const { return at_ + 2 < code_.size() ? std::string(code_[at_ + 2].text) : ""; }

  // The last identifier before the parameter list, outside the <...> of types and of type parameters.
  std::string declared_name() const {
    std::string_view name = "?";
    int depth = 0;
    for (size_t i = at_; i < code_.size() && !(depth == 0 && code_[i].text == "("); ++i) {
      if (code_[i].text == "<") ++depth;
      if (code_[i].text == ">") --depth;
      if (depth == 0 && code_[i].kind == TokenKind::Identifier) name = code_[i].text;
    }
    return std::string(name);
  }

  std::vector<Token> code_;
  size_t at_ = 0;
  std::map<std::string, bool> backward_only_;
  std::set<std::string> forward_, backward_elsewhere_, forward_elsewhere_;
};

}  // namespace

std::map<std::string, bool> find_backward_only(std::string_view source) { return Search(source).run(); }

bool calls_function(std::string_view emitted, const std::string& name) {
  for (const Token& token : split_tokens(emitted)) {
    if (token.kind != TokenKind::Identifier) continue;
    const size_t number = token.text.find_last_not_of("0123456789");
    if (number == std::string_view::npos || token.text[number] != '_') continue;
    const std::string_view stem = token.text.substr(0, number);
    if (stem == name || stem.ends_with("_" + name)) return true;
  }
  return false;
}

}  // namespace torch_slang
