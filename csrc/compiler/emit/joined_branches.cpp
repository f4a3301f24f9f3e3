#include "compiler/emit/joined_branches.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

constexpr size_t kMostBetween = 200;  // tokens that are put into both ways, spaces among them

class Joiner {
 public:
  explicit Joiner(std::string_view body) : tokens_(split_tokens(body)) {}

  int count() const { return count_; }
  std::string all() {
    std::string text;
    std::string_view before;  // the last token of code
    for (size_t at = 0; at < tokens_.size();) {
      const auto first = before == "else" ? std::nullopt : branch(at);
      if (is_code(tokens_[at])) before = tokens_[at].text;
      if (first) {
        at = add_joined(*first, text);
      } else {
        text += tokens_[at++].text;
      }
    }
    return text;
  }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  // `if(condition) { then } else { otherwise }`.
  struct Branch {
    Range condition, then;
    std::optional<Range> otherwise;
    size_t end = 0;
  };
  // The statements between two branches.
  struct Between {
    std::string declarations, statements;
    size_t tokens = 0;  // of the statements
  };

  size_t code_from(size_t at) const {
    while (at < tokens_.size() && !is_code(tokens_[at])) ++at;
    return at;
  }
  bool is(size_t at, std::string_view text) const { return at < tokens_.size() && tokens_[at].text == text; }
  bool is_name(size_t at) const { return at < tokens_.size() && tokens_[at].kind == TokenKind::Identifier; }

  // The tokens between the bracket at `open` and its partner, if there is one.
  std::optional<Range> bracketed(size_t open, std::string_view opening, std::string_view closing) const {
    if (!is(open, opening)) return std::nullopt;
    int depth = 0;
    for (size_t at = open; at < tokens_.size(); ++at) {
      if (!is_code(tokens_[at])) continue;
      if (tokens_[at].text == opening) ++depth;
      if (tokens_[at].text == closing && --depth == 0) return Range{open + 1, at};
    }
    return std::nullopt;
  }

  std::optional<Branch> any_branch(size_t at) const {
    if (!is(at, "if")) return std::nullopt;
    const auto condition = bracketed(code_from(at + 1), "(", ")");
    if (!condition) return std::nullopt;
    const auto then = bracketed(code_from(condition->end + 1), "{", "}");
    if (!then) return std::nullopt;
    Branch found{*condition, *then, std::nullopt, then->end + 1};
    const size_t next = code_from(found.end);
    if (is(next, "else")) {
      found.otherwise = bracketed(code_from(next + 1), "{", "}");
      if (!found.otherwise) return std::nullopt;  // else if
      found.end = found.otherwise->end + 1;
    }
    return found;
  }

  // One whose condition is a variable.
  std::optional<Branch> branch(size_t at) const {
    auto found = any_branch(at);
    if (found && (found->condition.end != found->condition.begin + 1 || !is_name(found->condition.begin)))
      found.reset();
    return found;
  }
  std::string_view name_of(const Branch& branch) const { return tokens_[branch.condition.begin].text; }

  // Assigned to, or its address taken, for all that can be seen here.
  bool changes(const Range& range, std::string_view name) const {
    size_t before = tokens_.size();
    for (size_t at = range.begin; at < range.end; ++at) {
      if (!is_code(tokens_[at])) continue;
      if (tokens_[at].text == name) {
        const size_t next = code_from(at + 1);
        if (is(before, "&") || (is(next, "=") && !is(next + 1, "="))) return true;
      }
      before = at;
    }
    return false;
  }

  bool calls(const Range& range) const {
    for (size_t at = range.begin; at < range.end; ++at) {
      if (!is_name(at) || !is(code_from(at + 1), "(")) continue;
      const auto known = {"if", "bool", "int", "uint", "float", "double"};
      if (std::find(known.begin(), known.end(), tokens_[at].text) == known.end()) return true;
    }
    return false;
  }

  // The end of the statement at `at`, and whether it is `type name;`. None if it declares and initialises, or jumps, or is
  // of any other kind.
  struct Statement {
    size_t end;
    bool declares;
  };
  std::optional<Statement> statement(size_t at) const {
    if (const auto found = any_branch(at)) return Statement{found->end, false};
    size_t end = at, words = 0;
    bool plain = true;
    for (; end < tokens_.size() && !is(end, ";"); ++end) {
      if (is(end, "{") || is(end, "}")) return std::nullopt;
      plain = plain && !is(end, "=") && !is(end, "(");
      words += is_name(end);
    }
    if (end == tokens_.size()) return std::nullopt;
    const size_t second = code_from(at + 1);
    if (plain && words > 1 && !is(at, "return")) return Statement{end + 1, true};
    if (is(at, "(") || (is_name(at) && (is(second, "=") || is(second, "[")))) return Statement{end + 1, false};
    return std::nullopt;
  }

  // From `begin` to the next branch on `name`, which is then in `next`.
  std::optional<Between> between(size_t begin, std::string_view name, std::optional<Branch>& next) const {
    Between found;
    for (size_t at = code_from(begin);; at = code_from(begin)) {
      next = branch(at);
      if (next && name_of(*next) == name) {
        found.statements += copy({begin, at});  // says which line the branch is from
        return found;
      }
      const auto here = statement(at);
      if (!here || changes({at, here->end}, name) || calls({at, here->end})) return std::nullopt;
      (here->declares ? found.declarations : found.statements) += copy({begin, here->end});
      if (!here->declares) found.tokens += here->end - at;
      if (found.tokens > kMostBetween) return std::nullopt;
      begin = here->end;
    }
  }

  // The branch and those that follow it on the same condition; where they end.
  size_t add_joined(const Branch& first, std::string& text) {
    const std::string_view name = name_of(first);
    std::string declarations, then = copy(first.then), otherwise = first.otherwise ? copy(*first.otherwise) : "";
    bool has_otherwise = first.otherwise.has_value();
    Branch last = first;
    while (!changes(last.then, name) && !(last.otherwise && changes(*last.otherwise, name))) {
      std::optional<Branch> next;
      const auto gap = between(last.end, name, next);
      if (!gap) break;
      declarations += gap->declarations;
      then += gap->statements + copy(next->then);
      otherwise += gap->statements + (next->otherwise ? copy(*next->otherwise) : "");
      has_otherwise = has_otherwise || next->otherwise || gap->tokens > 0;
      last = *next;
      ++count_;
    }
    text += declarations + "if(" + std::string(name) + ")\n{" + joined(std::move(then)) + "}";
    if (has_otherwise) text += "\nelse\n{" + joined(std::move(otherwise)) + "}";
    return last.end;
  }

  std::string joined(std::string part) {
    count_ += join_branches(part);
    return part;
  }

  std::string copy(const Range& range) const {
    std::string text;
    for (size_t at = range.begin; at < range.end; ++at) text += tokens_[at].text;
    return text;
  }

  const std::vector<Token> tokens_;
  int count_ = 0;  // branches that others took in
};

}  // namespace

int join_branches(std::string& body) {
  Joiner joiner(body);
  body = joiner.all();
  return joiner.count();
}

}  // namespace torch_slang
