#include "compiler/emit/statement_tree.h"

#include <string_view>

namespace torch_slang {
namespace {

bool is_open(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool is_closed(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

class Parser {
 public:
  explicit Parser(const std::vector<Token>& tokens) : tokens_(tokens) {}

  StatementList list(TokenRange range) const {
    StatementList result{range, {}};
    for (size_t at = from(range.begin); at < range.end; at = from(at)) {
      result.statements.push_back(statement(at));
      at = result.statements.back().tokens.end;
    }
    return result;
  }

 private:
  using Kind = Statement::Kind;

  size_t from(size_t at) const { return code_from(tokens_, at); }
  bool is(size_t at, std::string_view text) const { return at < tokens_.size() && tokens_[at].text == text; }

  Statement statement(size_t at) const {
    if (is(at, "{")) return block(at);
    if (is(at, "if")) return branch(at);
    if (is(at, "for")) return loop(at);
    if (is(at, "switch")) return selection(at);
    if (is(at, "break")) return jump(at, Kind::Break);
    if (is(at, "continue")) return jump(at, Kind::Continue);
    if (is(at, "return")) return jump(at, Kind::Return);
    for (const char* word : {"while", "do", "else", "goto", "case", "default"}) {
      if (is(at, word)) throw UnknownStatement{at};
    }
    const size_t end = end_of_plain(at);
    return {Kind::Plain, {at, end}, {at, end}, {}, {}};
  }

  // Past the `;` outside all brackets.
  size_t end_of_plain(size_t begin) const {
    int depth = 0;
    for (size_t at = begin; at < tokens_.size(); ++at) {
      if (!is_code(tokens_[at])) continue;
      if (is_open(tokens_[at].text)) ++depth;
      if (is_closed(tokens_[at].text) && --depth < 0) break;
      if (depth == 0 && is(at, ";")) return at + 1;
    }
    throw UnknownStatement{begin};
  }

  // The tokens in the bracket that has to stand at `open`.
  TokenRange inside(size_t open, std::string_view bracket) const {
    if (!is(open, bracket)) throw UnknownStatement{open};
    const size_t close = partner_of(tokens_, open);
    if (close == tokens_.size()) throw UnknownStatement{open};
    return {open + 1, close};
  }

  Statement block(size_t at) const {
    const TokenRange body = inside(at, "{");
    return {Kind::Block, {at, body.end + 1}, {at, at}, {list(body)}, {}};
  }

  Statement branch(size_t at) const {
    const TokenRange condition = inside(from(at + 1), "(");
    const TokenRange then = inside(from(condition.end + 1), "{");
    Statement result{Kind::If, {at, then.end + 1}, condition, {list(then)}, {}};
    const size_t next = from(then.end + 1);
    if (is(next, "else")) {
      const TokenRange otherwise = inside(from(next + 1), "{");
      result.parts.push_back(list(otherwise));
      result.tokens.end = otherwise.end + 1;
    }
    return result;
  }

  Statement loop(size_t at) const {
    const TokenRange head = inside(from(at + 1), "(");
    const size_t first = from(head.begin), second = from(first + 1);
    if (!is(first, ";") || !is(second, ";") || from(second + 1) != head.end) throw UnknownStatement{at};
    const TokenRange body = inside(from(head.end + 1), "{");
    return {Kind::Loop, {at, body.end + 1}, head, {list(body)}, {}};
  }

  Statement selection(size_t at) const {
    const TokenRange selector = inside(from(at + 1), "(");
    const TokenRange cases = inside(from(selector.end + 1), "{");
    Statement result{Kind::Switch, {at, cases.end + 1}, selector, {}, {}};
    for (size_t here = from(cases.begin); here < cases.end;) {
      result.labels.emplace_back();
      while (is(here, "case") || is(here, "default")) {
        const size_t colon = end_of_label(here);
        result.labels.back().push_back({here + 1, is(here, "default") ? here + 1 : colon});
        here = from(colon + 1);
      }
      if (result.labels.back().empty()) throw UnknownStatement{here};
      const TokenRange body = inside(here, "{");
      result.parts.push_back(list(body));
      here = from(body.end + 1);
    }
    return result;
  }

  size_t end_of_label(size_t at) const {
    for (size_t colon = at; colon < tokens_.size(); ++colon) {
      if (is(colon, "{") || is(colon, ";")) break;
      if (is(colon, ":") && !is(colon - 1, ":") && !is(colon + 1, ":")) return colon;
    }
    throw UnknownStatement{at};
  }

  Statement jump(size_t at, Kind kind) const {
    const size_t end = end_of_plain(at);
    return {kind, {at, end}, {from(at + 1), end - 1}, {}, {}};
  }

  const std::vector<Token>& tokens_;
};

}  // namespace

size_t code_from(const std::vector<Token>& tokens, size_t at) {
  while (at < tokens.size() && !is_code(tokens[at])) ++at;
  return at;
}

size_t partner_of(const std::vector<Token>& tokens, size_t open) {
  int depth = 0;
  for (size_t at = open; at < tokens.size(); ++at) {
    if (!is_code(tokens[at])) continue;
    if (is_open(tokens[at].text)) ++depth;
    if (is_closed(tokens[at].text) && --depth == 0) return at;
  }
  return tokens.size();
}

StatementList parse_statements(const std::vector<Token>& tokens, TokenRange body) { return Parser(tokens).list(body); }

}  // namespace torch_slang
