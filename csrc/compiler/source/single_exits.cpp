#include "compiler/source/single_exits.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/source/declared_function.h"
#include "compiler/source/differentiable_functions.h"
#include "compiler/source/source_edits.h"

namespace torch_slang {
namespace {

// Walks the statements of one body, and collects what changes there.
class Body {
 public:
  Body(const std::string& source, const SourceTokens& tokens, std::string type)
      : source_(source), tokens_(tokens), type_(std::move(type)), edits_(source) {}

  // None: a statement is not understood, the one at `failed`.
  std::optional<SourceEdits> rewritten(const DifferentiableFunction& function) {
    const size_t begin = place(function.open), size = place(function.close) - begin;
    const std::string body = source_.substr(begin, size);
    for (int i = 1; body.find(prefix_) != std::string::npos; ++i) prefix_ = "tsl" + std::to_string(i) + "_";
    const std::string result = type_.empty() ? "" : " " + type_ + " " + result_name() + ";";
    insert(begin + 1, result + " bool " + returned() + " = false;");
    if (!block(function.open, /*breaks=*/false)) return {};
    if (!type_.empty()) insert(place(function.close), " return " + result_name() + "; ");
    return edits_;
  }
  size_t failed() const { return failed_; }

 private:
  std::string_view word(size_t at) const { return tokens_[at]; }
  size_t place(size_t at) const { return edits_.place(word(at)); }
  size_t behind(size_t at) const { return place(at) + word(at).size(); }
  void insert(size_t place, std::string text) { edits_.insert(place, std::move(text)); }
  std::string returned() const { return prefix_ + "returned"; }
  std::string result_name() const { return prefix_ + "result"; }

  std::nullopt_t fail(size_t at) {
    if (failed_ == 0) failed_ = at;
    return std::nullopt;
  }

  // Behind the block or the statement that begins at `at`, or none. `breaks`: a `break` there leaves a loop or a switch.
  std::optional<size_t> block(size_t open, bool breaks) {
    const size_t close = tokens_.closing(open);
    std::string closings;
    for (size_t at = open + 1; at < close;) {
      if (word(at) == "case" || word(at) == "default") {
        at = behind_label(at);
        continue;
      }
      const Exits before = exits();
      const auto next = statement(at, breaks);
      if (!next) return {};
      if (*next > close) return fail(at);
      const std::string guard = guard_since(before, breaks);
      if (!guard.empty() && *next < close) {
        insert(behind(*next - 1), " if (!" + guard + ") {");
        closings += " }";
      }
      at = *next;
    }
    if (!closings.empty()) insert(place(close), closings + " ");
    return close + 1;
  }

  // Behind the colon of `case A::b:` and `label:`.
  size_t behind_label(size_t at) const {
    for (; at < tokens_.size() && word(at) != ":"; ++at) {
      if (word(at + 1) == ":" && word(at + 2) == ":") at += 2;
      if (word(at + 1) == "(") at = tokens_.closing(at + 1);
    }
    return at + 1;
  }

  std::optional<size_t> statement(size_t begin, bool breaks) {
    size_t at = begin;
    for (bool more = true; more;) {
      more = word(at) == "[" || is_label(at);
      if (more) at = word(at) == "[" ? tokens_.closing(at) + 1 : at + 2;
    }
    if (word(at) == "{") return block(at, breaks);
    if (word(at) == "if") return branch(at, breaks);
    if (word(at) == "return") return exit(at, breaks);
    if (word(at) == "continue") return go_on(at);
    if (word(at) == "$") return unrolled(at, breaks);
    if (word(at) == "defer") return deferred(at);
    if (is_type(at)) return behind_type(at);
    const Exits before = exits();
    const auto next = breakable(at);
    if (next == at) return is_plain(at) ? behind_semicolon(at) : fail(at);
    if (!next) return {};
    std::string leave;
    if (exits().returns > before.returns && breaks) leave = " if (" + returned() + ") break;";
    // A `continue` of the loop around a switch that this one stands in.
    if (is_in_switch() && exits().continues > before.continues) leave += " if (" + loop()->flag + ") break;";
    if (!leave.empty()) {
      insert(place(begin), "{ ");
      insert(behind(*next - 1), leave + " }");
    }
    return next;
  }

  // A loop or a switch; `at` if it is neither.
  std::optional<size_t> breakable(size_t at) {
    if (word(at) == "__target_switch" || word(at) == "__stage_switch") return body(at + 1, /*is_loop=*/false);
    if (word(at) == "for" || word(at) == "while" || word(at) == "switch") {
      return word(at + 1) == "(" ? body(tokens_.closing(at + 1) + 1, word(at) != "switch") : fail(at);
    }
    if (word(at) != "do") return at;
    const auto next = body(at + 1, /*is_loop=*/true);
    if (!next) return {};
    return word(*next) == "while" ? behind_semicolon(*next) : fail(at);
  }

  // A `continue` goes to the end of the body.
  std::optional<size_t> body(size_t begin, bool is_loop) {
    loops_.push_back({is_loop ? prefix_ + "continued_" + std::to_string(loops_.size()) : ""});
    const auto next = statement(begin, /*breaks=*/true);
    const Loop loop = loops_.back();
    loops_.pop_back();
    if (!next || loop.continues == 0) return next;
    if (word(begin) == "{") {
      insert(place(begin) + 1, " bool " + loop.flag + " = false;");
    } else {
      edits_.insert_first(place(begin), "{ bool " + loop.flag + " = false; ");
      insert(behind(*next - 1), " }");
    }
    return next;
  }

  // `$for (i in Range(0, 3)) { }`: its iterations stand one behind the other.
  std::optional<size_t> unrolled(size_t at, bool breaks) {
    if (word(at + 1) != "for" || word(at + 2) != "(") return fail(at);
    const size_t begin = tokens_.closing(at + 2) + 1;
    const Exits before = exits();
    const auto next = statement(begin, breaks);
    if (!next) return {};
    const std::string guard = guard_since(before, breaks);
    if (!guard.empty()) edits_.insert_first(place(begin), "if (!" + guard + ") ");
    return next;
  }

  // It runs where its block ends. What stands in it does not leave it.
  std::optional<size_t> deferred(size_t at) {
    if (word(at + 1) != "{") return behind_semicolon(at);
    const size_t close = tokens_.closing(at + 1);
    for (size_t inner = at + 1; inner < close; ++inner) {
      if (word(inner) == "return" || word(inner) == "continue") return fail(at);
    }
    return close + 1;
  }

  std::optional<size_t> go_on(size_t at) {
    Loop* const around = loop();
    if (around == nullptr || word(at + 1) != ";") return fail(at);
    ++around->continues;
    const std::string set = around->flag + " = true";
    edits_.replace(word(at), is_in_switch() ? "{ " + set : set);
    if (is_in_switch()) edits_.replace(word(at + 1), "; break; }");
    return at + 2;
  }

  std::optional<size_t> branch(size_t at, bool breaks) {
    if (word(at + 1) != "(") return fail(at);
    const auto then = statement(tokens_.closing(at + 1) + 1, breaks);
    return then && word(*then) == "else" ? statement(*then + 1, breaks) : then;
  }

  std::optional<size_t> exit(size_t at, bool breaks) {
    const auto next = behind_semicolon(at);
    if (!next) return {};
    const bool has_value = *next != at + 2;
    if (!type_.empty() && !has_value) return fail(at);
    ++returns_;
    const std::string target = type_.empty() ? "" : result_name() + " =";
    // The value stands in parentheses, since a comma in it is an operator; but a list in braces must not.
    const bool in_parentheses = has_value && !type_.empty() && word(at + 1) != "{";
    edits_.replace(word(at), target.empty() ? "{" : in_parentheses ? "{ " + target + " (" : "{ " + target);
    const std::string end = !has_value ? "" : in_parentheses ? ");" : ";";
    edits_.replace(word(*next - 1), end + " " + returned() + " = true;" + (breaks ? " break; }" : " }"));
    return next;
  }

  bool is_label(size_t at) const { return tokens_.is_name(at) && word(at + 1) == ":" && word(at + 2) != ":"; }

  bool is_type(size_t at) const {
    return word(at) == "struct" || word(at) == "enum" || word(at) == "interface" || word(at) == "extension";
  }

  std::optional<size_t> behind_type(size_t at) {
    while (at < tokens_.size() && word(at) != "{" && word(at) != ";") ++at;
    if (word(at) != "{") return fail(at);
    const size_t close = tokens_.closing(at);
    return word(close + 1) == ";" ? close + 2 : close + 1;
  }

  bool is_plain(size_t at) const {
    static const std::set<std::string_view> kOthers = {"else", "class", "func", "throw", "try", "catch", "}"};
    return kOthers.count(word(at)) == 0;
  }

  // None if a `return` comes before: then it is no statement that is understood.
  std::optional<size_t> behind_semicolon(size_t begin) {
    size_t at = begin;
    while (at < tokens_.size() && word(at) != ";") {
      if (word(at) == "return" && at != begin) return fail(begin);
      const bool opens = word(at) == "(" || word(at) == "[" || word(at) == "{";
      at = opens ? tokens_.closing(at) + 1 : at + 1;
    }
    return at < tokens_.size() ? std::optional(at + 1) : fail(begin);
  }

  struct Loop {
    std::string flag;  // the variable that a `continue` sets; empty for a switch
    size_t continues = 0;
  };
  // How many stand before.
  struct Exits {
    size_t returns, continues;
  };

  // The innermost loop around what is looked at.
  Loop* loop() {
    for (auto one = loops_.rbegin(); one != loops_.rend(); ++one) {
      if (!one->flag.empty()) return &*one;
    }
    return nullptr;
  }
  bool is_in_switch() const { return !loops_.empty() && loops_.back().flag.empty(); }
  Exits exits() { return {returns_, loop() == nullptr ? 0 : loop()->continues}; }

  // The flag that tells whether what comes behind is left out; empty: none does.
  std::string guard_since(const Exits& before, bool breaks) {
    const Exits now = exits();
    if (now.continues > before.continues && !is_in_switch()) return loop()->flag;
    return now.returns > before.returns && !breaks ? returned() : "";
  }

  const std::string& source_;
  const SourceTokens& tokens_;
  const std::string type_;  // empty: it returns nothing
  std::string prefix_ = "tsl_";  // of names that the body has not
  SourceEdits edits_;
  std::vector<Loop> loops_;  // and switches, around the statement that is looked at
  size_t returns_ = 0;
  size_t failed_ = 0;
};

bool has_continue(const SourceTokens& tokens, const DifferentiableFunction& function) {
  for (size_t at = function.open; at < function.close; ++at) {
    if (tokens[at] == "continue") return true;
  }
  return false;
}

// Behind the statement of a loop's keyword at `at`, as far as braces tell.
size_t behind_loop(const SourceTokens& tokens, size_t at) {
  if (tokens[at + 1] == "(") at = tokens.closing(at + 1);
  for (++at; at < tokens.size() && tokens[at] != ";"; ++at) {
    if (tokens[at] == "{") return tokens.closing(at);
  }
  return at;
}

// A loop is left by `return`, or gone on with: there Slang is known to be wrong.
bool exits_in_loop(const SourceTokens& tokens, const DifferentiableFunction& function) {
  for (size_t at = function.open; at < function.close; ++at) {
    if (tokens[at] != "for" && tokens[at] != "while" && tokens[at] != "do") continue;
    for (const size_t end = behind_loop(tokens, at); at < end; ++at) {
      if (tokens[at] == "return" || tokens[at] == "continue") return true;
    }
  }
  return false;
}

}  // namespace

std::string with_single_exits(const std::string& source, std::vector<KeptExits>* kept) {
  const SourceTokens tokens(source);
  SourceEdits edits(source);
  for (const DifferentiableFunction& function : differentiable_functions(tokens)) {
    if (!returns_early(tokens, function) && !has_continue(tokens, function)) continue;
    const DeclaredFunction declared = declared_function(tokens, function);
    size_t failed = 0;
    if (declared.type) {
      Body body(source, tokens, *declared.type);
      if (const auto rewritten = body.rewritten(function)) {
        edits.add(*rewritten);
        continue;
      }
      failed = body.failed();
    }
    if (kept == nullptr || !exits_in_loop(tokens, function)) continue;
    kept->push_back({declared.name, tokens.line(failed == 0 ? function.attribute : failed),
                     failed == 0 ? "" : std::string(tokens[failed])});
  }
  return edits.applied();
}

std::vector<KeptExits> all_kept_exits(const std::string& source) {
  const SourceTokens tokens(source);
  std::vector<KeptExits> kept;
  for (const DifferentiableFunction& function : differentiable_functions(tokens)) {
    if (!exits_in_loop(tokens, function)) continue;
    kept.push_back({declared_function(tokens, function).name, tokens.line(function.attribute), ""});
  }
  return kept;
}

}  // namespace torch_slang
