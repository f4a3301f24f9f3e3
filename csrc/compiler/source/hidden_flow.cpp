#include "compiler/source/hidden_flow.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "compiler/source/differentiable_functions.h"
#include "compiler/source/directives.h"
#include "compiler/text/code_names.h"
#include "compiler/text/words.h"

namespace torch_slang {
namespace {

// What the derivatives of a declaration or call depend on.
constexpr std::array<std::string_view, 14> kDerivatives = {"no_diff",
                                                           "detach",
                                                           "TreatAsDifferentiable",
                                                           "struct",
                                                           "interface",
                                                           "extension",
                                                           "IDifferentiable",
                                                           "typealias",
                                                           "out",
                                                           "inout",
                                                           "CudaKernel",
                                                           "BackwardDerivative",
                                                           "ForwardDerivative",
                                                           "NoDiffThis"};
constexpr std::array<std::string_view, 11> kFlow = {"while", "do",      "for",    "if",       "else", "switch",
                                                    "case",  "default", "return", "continue", "defer"};

bool is_flow(const Token& token) {
  if (token.kind == TokenKind::Identifier)
    return is_among(kFlow, token.text) || is_among(kDifferentiable, token.text) || is_among(kDerivatives, token.text);
  return token.text == "{" || token.text == "}" || token.text == ";";
}

class HiddenFlow {
 public:
  void add_define(const std::pair<std::string, std::string>& define) {
    if (std::ranges::any_of(split_tokens(define.second), is_flow)) macros_.insert(macro_name(define.first));
    add_code_names(define.second, names_);
  }

  void add(const SourceCode& source) {
    depth_ = 0;
    conditions_.clear();
    for (const Token& token : source.tokens()) {
      if (token.text == "{") ++depth_;
      if (token.text == "}") --depth_;
      if (token.kind == TokenKind::Identifier) names_.emplace(token.text);
      if (token.kind == TokenKind::Directive && !is_line_directive(token.text)) add_directive(words_of(token));
    }
  }

  bool hides() const {
    const bool differentiates = std::ranges::any_of(kDifferentiable, [&](auto name) { return names_.count(name) > 0; });
    return differentiates && (splits_braces_ || std::ranges::any_of(macros_, [&](const std::string& macro) {
                                return names_.count(macro) > 0;
                              }));
  }

 private:
  void add_directive(const std::vector<Token>& words) {
    const std::string_view kind = words.empty() ? "" : words[0].text;
    if (kind == "define" && words.size() > 1) {
      if (std::any_of(words.begin() + 2, words.end(), is_flow)) macros_.emplace(words[1].text);
      for (size_t i = 2; i < words.size(); ++i) names_.emplace(words[i].text);
    } else if (kind.starts_with("if")) {
      splits_braces_ = splits_braces_ || depth_ > 0;
      conditions_.push_back(depth_);
    } else if ((kind.starts_with("el") || kind == "endif") && !conditions_.empty()) {
      splits_braces_ = splits_braces_ || depth_ != conditions_.back();
      if (kind == "endif") conditions_.pop_back();
    }
  }

  std::set<std::string> macros_;  // that have control flow in their definition
  NameSet names_;  // that the code, or the definition of a macro, has
  int depth_ = 0;
  std::vector<int> conditions_;  // the depths at which those begin that are open
  bool splits_braces_ = false;
};

}  // namespace

bool hides_control_flow(const std::vector<const SourceCode*>& sources,
                        const std::vector<std::pair<std::string, std::string>>& defines) {
  HiddenFlow flow;
  for (const auto& define : defines) flow.add_define(define);
  for (const SourceCode* source : sources) flow.add(*source);
  return flow.hides();
}

}  // namespace torch_slang
