#include "compiler/source/single_exits.h"

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/source/differentiable_functions.h"
#include "compiler/source/source_edits.h"

namespace torch_slang {
namespace {

// The type that a function returns; empty for a constructor. None: the declaration is not understood.
class ReturnType {
 public:
  ReturnType(const std::string& source, const SourceTokens& tokens) : source_(source), tokens_(tokens) {}

  std::optional<std::string_view> of(const DifferentiableFunction& function) const {
    size_t begin = function.attribute;
    while (begin < function.open && tokens_[begin] != "]") {
      begin = tokens_[begin] == "(" ? tokens_.closing(begin) + 1 : begin + 1;
    }
    for (++begin; tokens_[begin] == "[" || is_modifier(begin);) {
      begin = tokens_[begin] == "[" ? tokens_.closing(begin) + 1 : begin + 1;
    }
    size_t name = begin;
    for (size_t at = begin; at < function.open && tokens_[at] != "(";) {
      if (is_unknown(at)) return {};
      if (tokens_[at] == "<") {
        at = tokens_.behind_angles(at);
      } else {
        name = at++;
      }
    }
    if (!tokens_.is_name(name)) return {};
    if (name == begin) return tokens_[name] == "__init" ? std::optional(std::string_view()) : std::nullopt;
    const auto* first = tokens_[begin].data();
    const auto* last = tokens_[name - 1].data() + tokens_[name - 1].size();
    return std::string_view(first, static_cast<size_t>(last - first));
  }

 private:
  bool is_modifier(size_t at) const {
    static const std::set<std::string_view> kModifiers = {"public", "internal", "private", "static",
                                                          "inline", "override", "no_diff", "const"};
    return kModifiers.count(tokens_[at]) > 0;
  }
  bool is_unknown(size_t at) const {
    static const std::set<std::string_view> kUnknown = {"func", "operator", "__generic", "some", "property", "{"};
    return kUnknown.count(tokens_[at]) > 0;
  }

  const std::string& source_;
  const SourceTokens& tokens_;
};

// Walks the statements of one body, and collects what changes there.
class Body {
 public:
  Body(const std::string& source, const SourceTokens& tokens, std::string_view type)
      : source_(source), tokens_(tokens), type_(type == "void" ? std::string_view() : type), edits_(source) {}

  // None: a statement is not understood.
  std::optional<SourceEdits> rewritten(const DifferentiableFunction& function) {
    const size_t begin = place(function.open), size = place(function.close) - begin;
    const std::string body = source_.substr(begin, size);
    if (body.find('#') != std::string::npos || body.find("tsl_") != std::string::npos) return {};
    const std::string result = type_.empty() ? "" : " " + std::string(type_) + " tsl_result;";
    insert(begin + 1, result + " bool tsl_returned = false;");
    if (!block(function.open, /*breaks=*/false)) return {};
    if (!type_.empty()) insert(place(function.close), " return tsl_result; ");
    return returns_ > 0 || any_continue_ ? std::optional(std::move(edits_)) : std::nullopt;
  }

 private:
  std::string_view word(size_t at) const { return tokens_[at]; }
  size_t place(size_t at) const { return edits_.place(word(at)); }
  size_t behind(size_t at) const { return place(at) + word(at).size(); }
  void insert(size_t place, std::string text) { edits_.insert(place, std::move(text)); }

  // Behind the block or the statement that begins at `at`, or none. `breaks`: a `break` there leaves a loop or a switch.
  std::optional<size_t> block(size_t open, bool breaks) {
    const size_t close = tokens_.closing(open);
    std::string closings;
    for (size_t at = open + 1; at < close;) {
      if (word(at) == "case" || word(at) == "default") {
        while (at < close && word(at) != ":") ++at;
        ++at;
        continue;
      }
      const size_t before = returns_, continued = loops_.empty() ? 0 : loops_.back().continues;
      const auto next = statement(at, breaks);
      if (!next || *next > close) return {};
      const bool leaves = returns_ > before && !breaks,
                 goes_on = !loops_.empty() && loops_.back().continues > continued;
      if ((leaves || goes_on) && *next < close) {
        insert(behind(*next - 1), " if (!" + (goes_on ? loops_.back().flag : "tsl_returned") + ") {");
        closings += " }";
      }
      at = *next;
    }
    if (!closings.empty()) insert(place(close), closings + " ");
    return close + 1;
  }

  std::optional<size_t> statement(size_t begin, bool breaks) {
    size_t at = begin;
    while (word(at) == "[") at = tokens_.closing(at) + 1;
    if (word(at) == "{") return block(at, breaks);
    if (word(at) == "if") return branch(at, breaks);
    if (word(at) == "return") return exit(at, breaks);
    if (word(at) == "continue") return go_on(at);
    const size_t before = returns_;
    const auto next = breakable(at);
    if (next == at) return is_plain(at) ? behind_semicolon(at) : std::nullopt;
    if (next && returns_ > before && breaks) {
      insert(place(begin), "{ ");
      insert(behind(*next - 1), " if (tsl_returned) break; }");
    }
    return next;
  }

  // A loop or a switch; `at` if it is neither.
  std::optional<size_t> breakable(size_t at) {
    if (word(at) == "for" || word(at) == "while" || word(at) == "switch") {
      return word(at + 1) == "(" ? body(tokens_.closing(at + 1) + 1, word(at) != "switch") : std::nullopt;
    }
    if (word(at) != "do") return at;
    const auto next = body(at + 1, /*is_loop=*/true);
    return next && word(*next) == "while" ? behind_semicolon(*next) : std::nullopt;
  }

  // A `continue` goes to the end of the body.
  std::optional<size_t> body(size_t begin, bool is_loop) {
    loops_.push_back({is_loop ? "tsl_continued_" + std::to_string(loops_.size()) : ""});
    const auto next = statement(begin, /*breaks=*/true);
    const Loop loop = loops_.back();
    loops_.pop_back();
    if (!next || loop.continues == 0) return next;
    if (word(begin) != "{") return {};
    insert(place(begin) + 1, " bool " + loop.flag + " = false;");
    any_continue_ = true;
    return next;
  }

  std::optional<size_t> go_on(size_t at) {
    if (loops_.empty() || loops_.back().flag.empty() || word(at + 1) != ";") return {};  // of a loop around a switch
    ++loops_.back().continues;
    edits_.replace(word(at), loops_.back().flag + " = true");
    return at + 2;
  }

  std::optional<size_t> branch(size_t at, bool breaks) {
    if (word(at + 1) != "(") return {};
    const auto then = statement(tokens_.closing(at + 1) + 1, breaks);
    return then && word(*then) == "else" ? statement(*then + 1, breaks) : then;
  }

  std::optional<size_t> exit(size_t at, bool breaks) {
    const auto next = behind_semicolon(at);
    if (!next || type_.empty() != (*next == at + 2)) return {};
    ++returns_;
    // The value stands in parentheses, since a comma in it is an operator; but a list in braces must not.
    const bool is_list = word(at + 1) == "{";
    edits_.replace(word(at), type_.empty() ? "{" : is_list ? "{ tsl_result =" : "{ tsl_result = (");
    const std::string end = type_.empty() ? "" : is_list ? ";" : ");";
    edits_.replace(word(*next - 1), end + " tsl_returned = true;" + (breaks ? " break; }" : " }"));
    return next;
  }

  bool is_plain(size_t at) const {
    static const std::set<std::string_view> kOthers = {
        "else",           "struct",          "class", "enum", "interface", "extension",
        "func",           "typedef",         "throw", "try",  "defer",     "__target_switch",
        "__stage_switch", "__intrinsic_asm", "$",     "}",    "typealias"};
    return kOthers.count(word(at)) == 0 && (word(at + 1) != ":" || !tokens_.is_name(at));
  }

  // None if a `return` comes before: then it is no statement that is understood.
  std::optional<size_t> behind_semicolon(size_t begin) const {
    size_t at = begin;
    while (at < tokens_.size() && word(at) != ";") {
      if (word(at) == "return" && at != begin) return {};
      const bool opens = word(at) == "(" || word(at) == "[" || word(at) == "{";
      at = opens ? tokens_.closing(at) + 1 : at + 1;
    }
    return at < tokens_.size() ? std::optional(at + 1) : std::nullopt;
  }

  const std::string& source_;
  const SourceTokens& tokens_;
  const std::string_view type_;  // empty: it returns nothing
  struct Loop {
    std::string flag;  // the variable that a `continue` sets; empty for a switch
    size_t continues = 0;
  };

  SourceEdits edits_;
  std::vector<Loop> loops_;  // and switches, around the statement that is looked at
  size_t returns_ = 0;
  bool any_continue_ = false;
};

bool has_continue(const SourceTokens& tokens, const DifferentiableFunction& function) {
  for (size_t at = function.open; at < function.close; ++at) {
    if (tokens[at] == "continue") return true;
  }
  return false;
}

}  // namespace

std::string with_single_exits(const std::string& source) {
  const SourceTokens tokens(source);
  SourceEdits edits(source);
  for (const DifferentiableFunction& function : differentiable_functions(source, tokens)) {
    if (function.hides_return || !(returns_early(tokens, function) || has_continue(tokens, function))) continue;
    const auto type = ReturnType(source, tokens).of(function);
    if (!type) continue;
    if (const auto rewritten = Body(source, tokens, *type).rewritten(function)) edits.add(*rewritten);
  }
  return edits.applied();
}

}  // namespace torch_slang
