#include "compiler/ctext/expressions.h"

#include <algorithm>
#include <array>

namespace torch_slang {
namespace {

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

constexpr std::array<std::string_view, 26> kKeywords = {
    "if",       "else",   "for",  "while", "do",      "switch",    "case",     "default", "break",
    "continue", "return", "goto", "new",   "delete",  "throw",     "try",      "catch",   "struct",
    "class",    "union",  "enum", "using", "typedef", "namespace", "template", "operator"};
constexpr std::array<std::string_view, 9> kSpecifiers = {"static",   "inline",   "constexpr",    "const",  "extern",
                                                         "volatile", "register", "thread_local", "mutable"};
constexpr std::array<std::string_view, 4> kLengths = {"unsigned", "signed", "long", "short"};
constexpr std::array<std::string_view, 10> kAssigning = {"<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="};
// Longer ones first.
constexpr std::array<std::string_view, 18> kBinary = {"<<", ">>", "&&", "||", "==", "!=", "<=", ">=", "<",
                                                      ">",  "+",  "-",  "*",  "/",  "%",  "&",  "|",  "^"};

}  // namespace

// Operators are joined from single characters: these.
bool Expressions::is_of_operators(size_t at) const {
  constexpr std::string_view kCharacters = "<>=!+-*/%&|^";
  return code_[at].size() == 1 && kCharacters.find(code_[at][0]) != std::string_view::npos;
}

bool Expressions::joined(size_t at, std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (code_[at + i] != text.substr(i, 1) || (i > 0 && !code_.is_joined(at + i - 1))) return false;
  }
  return true;
}

bool Expressions::is_plain_name(size_t at) const { return code_.is_name(at) && !is_one_of(code_[at], kKeywords); }

size_t Expressions::expect(size_t at, std::string_view text) const {
  if (code_[at] != text) throw UnknownForm{at};
  return at + 1;
}

size_t Expressions::assigning(size_t at) const {
  if (!is_of_operators(at)) return 0;
  for (const std::string_view one : kAssigning) {
    if (joined(at, one)) return one.size();
  }
  return code_[at] == "=" && !joined(at, "==") ? 1 : 0;
}

// How many tokens the binary operator has. 0: none.
size_t Expressions::binary(size_t at) const {
  if (!is_of_operators(at) || assigning(at) > 0) return 0;
  const auto found = std::ranges::find_if(kBinary, [&](std::string_view one) { return joined(at, one); });
  return found == kBinary.end() ? 0 : found->size();
}

size_t Expressions::expression(size_t at) const {
  at = operand(at);
  while (const size_t length = binary(at)) at = operand(at + length);
  if (code_[at] != "?") return at;
  return expression(expect(expression(at + 1), ":"));
}

size_t Expressions::declarator(size_t at) const {
  at = lengths(at + 1);
  return code_[at] == "=" ? value(at + 1) : at;
}

size_t Expressions::lengths(size_t at) const {
  while (code_[at] == "[") at = expect(expression(at + 1), "]");
  return at;
}

size_t Expressions::value(size_t at) const { return code_[at] == "{" ? list(at, "}") : expression(at); }

size_t Expressions::operand(size_t at) const {
  constexpr std::string_view kPrefixes = "+-!~*&";
  while (code_[at].size() == 1 && kPrefixes.find(code_[at]) != std::string_view::npos) ++at;
  return postfix(at);
}

size_t Expressions::postfix(size_t at) const {
  at = primary(at);
  for (;;) {
    if (code_[at] == "(") {
      at = list(at, ")");
    } else if (code_[at] == "[") {
      at = expect(expression(at + 1), "]");
    } else if (code_[at] == ".") {
      at = qualified_name(at + 1);
    } else if (joined(at, "->")) {
      at = qualified_name(at + 2);
    } else if (joined(at, "++") || joined(at, "--")) {
      at += 2;
    } else {
      return at;
    }
  }
}

size_t Expressions::primary(size_t at) const {
  if (code_.is_number(at)) return at + 1;
  if (code_.is_string(at)) {
    while (code_.is_string(at)) ++at;
    return at;
  }
  if (code_[at] == "." && code_.is_number(at + 1)) return at + 2;
  if (code_[at] == "(") {
    if (const auto behind = cast(at)) return operand(*behind);
    return expect(expression(at + 1), ")");
  }
  const size_t end = qualified_name(at);
  return code_[end] == "{" ? list(end, "}") : end;
}

// The position behind a cast: `(type*)`, or `(type)` in front of a name or a number, which cannot stand behind an expression.
std::optional<size_t> Expressions::cast(size_t open) const {
  const auto end = type(open + 1);
  if (!end || code_[*end] != ")") return std::nullopt;
  const bool is_pointer = code_[*end - 1] == "*" || code_[*end - 1] == "&";
  const bool has_operand = code_.is_name(*end + 1) || code_.is_number(*end + 1);
  return is_pointer || has_operand ? std::optional(*end + 1) : std::nullopt;
}

size_t Expressions::list(size_t open, std::string_view close) const {
  size_t at = open + 1;
  if (code_[at] == close) return at + 1;
  for (;;) {
    at = value(at);
    if (code_[at] == close) return at + 1;
    at = expect(at, ",");
    if (code_[at] == close && close == "}") return at + 1;
  }
}

size_t Expressions::qualified_name(size_t at) const {
  for (;;) {
    if (joined(at, "::")) at += 2;
    if (!is_plain_name(at)) throw UnknownForm{at};
    ++at;
    if (code_[at] == "<" && code_.is_joined(at - 1)) {
      if (const auto end = arguments_of_type(at)) at = *end;
    }
    if (!joined(at, "::")) return at;
  }
}

std::optional<size_t> Expressions::arguments_of_type(size_t angle) const {
  for (size_t at = angle;;) {
    const auto end = argument_of_type(at + 1);
    if (!end) return std::nullopt;
    if (code_[*end] == ">") return *end + 1;
    if (code_[*end] != ",") return std::nullopt;
    at = *end;
  }
}

std::optional<size_t> Expressions::argument_of_type(size_t at) const {
  if (code_.is_number(at)) return at + 1;
  if (code_[at] == "-" && code_.is_number(at + 1)) return at + 2;
  if (code_[at] == "(") return expect(expression(at + 1), ")");
  const auto end = type(at);
  if (!end || code_[*end] != "(") return end;
  return list(*end, ")");  // `int(3)`
}

size_t Expressions::specifiers(size_t at) const {
  for (; code_.is_name(at); ++at) {
    const std::string_view word = code_[at];
    const bool is_attribute = word.starts_with("__") && word.ends_with("__");
    if (!is_attribute && !word.starts_with("TSL_") && !is_one_of(word, kSpecifiers)) break;
    if (word == "extern" && code_.is_string(at + 1)) ++at;
    if (is_attribute && code_[at + 1] == "(") at = code_.closing(at + 1, code_.size());
  }
  return at;
}

std::optional<size_t> Expressions::type(size_t at) const {
  at = specifiers(at);
  if (code_[at] == "struct" || code_[at] == "typename") ++at;
  const size_t begin = at;
  while (is_one_of(code_[at], kLengths)) ++at;
  const bool has_length = at > begin;
  const bool is_whole = has_length && code_[at] != "int" && code_[at] != "char" && code_[at] != "double";
  if (!is_whole) {
    if (!is_plain_name(at) && !joined(at, "::")) return std::nullopt;
    try {
      at = qualified_name(at);
    } catch (const UnknownForm&) {
      return std::nullopt;
    }
  }
  while (code_[at] == "*" || code_[at] == "&" || code_[at] == "const" || code_[at] == "__restrict__") ++at;
  return at;
}

}  // namespace torch_slang
