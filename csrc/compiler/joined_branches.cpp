#include "compiler/joined_branches.h"

#include <optional>
#include <vector>

#include "compiler/tokens.h"

namespace torch_slang {
namespace {

class Joiner {
 public:
  explicit Joiner(std::string_view body) : tokens_(split_tokens(body)) {}

  std::string all() { return joined({0, tokens_.size()}); }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  // `if(condition) { then } else { otherwise }`, the condition a name.
  struct Branch {
    std::string_view condition;
    Range then;
    std::optional<Range> otherwise;
    size_t end = 0;
  };

  bool is_code(size_t at) const {
    const TokenKind kind = tokens_[at].kind;
    return kind != TokenKind::Space && kind != TokenKind::Comment && kind != TokenKind::Directive;
  }
  size_t code_from(size_t at) const {
    while (at < tokens_.size() && !is_code(at)) ++at;
    return at;
  }
  bool is(size_t at, std::string_view text) const { return at < tokens_.size() && tokens_[at].text == text; }

  // What is between the brace at `open` and its partner, if there is a brace.
  std::optional<Range> braces(size_t open) const {
    if (!is(open, "{")) return std::nullopt;
    int depth = 0;
    for (size_t at = open; at < tokens_.size(); ++at) {
      if (!is_code(at)) continue;
      if (tokens_[at].text == "{") ++depth;
      if (tokens_[at].text == "}" && --depth == 0) return Range{open + 1, at};
    }
    return std::nullopt;
  }

  std::optional<Branch> branch(size_t at) const {
    if (!is(at, "if")) return std::nullopt;
    const size_t open = code_from(at + 1), name = code_from(open + 1), close = code_from(name + 1);
    if (!is(open, "(") || !is(close, ")") || tokens_[name].kind != TokenKind::Identifier) return std::nullopt;
    const auto then = braces(code_from(close + 1));
    if (!then) return std::nullopt;
    Branch found{tokens_[name].text, *then, std::nullopt, then->end + 1};
    const size_t next = code_from(found.end);
    if (is(next, "else")) {
      found.otherwise = braces(code_from(next + 1));
      if (!found.otherwise) return std::nullopt;  // else if
      found.end = found.otherwise->end + 1;
    }
    return found;
  }

  // Assigned to, or its address taken, for all that can be seen here.
  bool changes(const Range& range, std::string_view name) const {
    size_t before = tokens_.size();
    for (size_t at = range.begin; at < range.end; ++at) {
      if (!is_code(at)) continue;
      if (tokens_[at].text == name) {
        const size_t next = code_from(at + 1);
        if (is(before, "&") || (is(next, "=") && !is(next + 1, "="))) return true;
      }
      before = at;
    }
    return false;
  }
  bool changes_its_condition(const Branch& branch) const {
    return changes(branch.then, branch.condition) || (branch.otherwise && changes(*branch.otherwise, branch.condition));
  }

  std::string joined(const Range& range) const {
    std::string text;
    bool after_else = false;
    for (size_t at = range.begin; at < range.end;) {
      const auto first = after_else ? std::nullopt : branch(at);
      if (is_code(at)) after_else = tokens_[at].text == "else";
      if (first) {
        at = add_joined(*first, text);
      } else {
        text += tokens_[at++].text;
      }
    }
    return text;
  }

  // The branch and those that follow it on the same condition; where they end.
  size_t add_joined(const Branch& first, std::string& text) const {
    std::string then = block(first.then), otherwise = first.otherwise ? block(*first.otherwise) : "";
    Branch last = first;
    while (!changes_its_condition(last)) {
      const auto next = branch(code_from(last.end));
      if (!next || next->condition != first.condition) break;
      const std::string between = copy({last.end, code_from(last.end)});  // says which line the next is from
      then += between + block(next->then);
      if (next->otherwise) otherwise += between + block(*next->otherwise);
      last = *next;
    }
    text += "if(" + std::string(first.condition) + ") {" + then + "}";
    if (!otherwise.empty()) text += " else {" + otherwise + "}";
    return last.end;
  }

  std::string block(const Range& range) const { return "{" + joined(range) + "}"; }
  std::string copy(const Range& range) const {
    std::string text;
    for (size_t at = range.begin; at < range.end; ++at) text += tokens_[at].text;
    return text;
  }

  const std::vector<Token> tokens_;
};

}  // namespace

std::string with_joined_branches(std::string_view body) { return Joiner(body).all(); }

}  // namespace torch_slang
