#include "compiler/source/single_exits.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/source/declared_function.h"
#include "compiler/source/differentiable_functions.h"
#include "compiler/source/statements.h"

namespace torch_slang {
namespace {

// Walks the statements of one body, and changes them.
class Body {
 public:
  Body(SourceCode& code, std::string type) : code_(code), type_(std::move(type)) {}

  // False: a statement is not understood, the one at `failed`; then nothing is changed.
  bool rewrite(const DifferentiableFunction& function) {
    const size_t edits = code_.edits();
    for (int i = 1; has_name_with(prefix_, function); ++i) prefix_ = "tsl" + std::to_string(i) + "_";
    const std::string result = type_.empty() ? "" : " " + type_ + " " + result_name() + ";";
    code_.insert_behind(function.open, result + " bool " + returned() + " = false;");
    if (!block(function.open, /*breaks=*/false)) {
      code_.forget_edits(edits);
      return false;
    }
    if (!type_.empty()) code_.insert(function.close, " return " + result_name() + "; ");
    return true;
  }
  size_t failed() const { return failed_; }

 private:
  std::string_view word(size_t at) const { return code_[at]; }
  void replace(size_t at, std::string text) { code_.replace({at, at + 1}, std::move(text)); }
  std::string returned() const { return prefix_ + "returned"; }
  std::string result_name() const { return prefix_ + "result"; }

  bool has_name_with(std::string_view prefix, const DifferentiableFunction& function) const {
    for (size_t at = function.open; at < function.close; ++at) {
      if (code_.is_name(at) && word(at).starts_with(prefix)) return true;
    }
    return false;
  }

  std::nullopt_t fail(size_t at) {
    if (failed_ == 0) failed_ = at;
    return std::nullopt;
  }

  // Behind the block or the statement that begins at `at`, or none. `breaks`: a `break` there leaves a loop or a switch.
  std::optional<size_t> block(size_t open, bool breaks) {
    const size_t close = code_.closing(open);
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
        code_.insert_behind(*next - 1, " if (!" + guard + ") {");
        closings += " }";
      }
      at = *next;
    }
    if (!closings.empty()) code_.insert(close, closings + " ");
    return close + 1;
  }

  // Behind the colon of `case A::b:` and `label:`.
  size_t behind_label(size_t at) const {
    for (; at < code_.size() && word(at) != ":"; ++at) {
      if (word(at + 1) == ":" && word(at + 2) == ":") at += 2;
      if (word(at + 1) == "(") at = code_.closing(at + 1);
    }
    return at + 1;
  }

  std::optional<size_t> statement(size_t begin, bool breaks) {
    size_t at = begin;
    for (bool more = true; more;) {
      more = word(at) == "[" || is_label(at);
      if (more) at = word(at) == "[" ? code_.closing(at) + 1 : at + 2;
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
      code_.insert(begin, "{ ");
      code_.insert_behind(*next - 1, leave + " }");
    }
    return next;
  }

  // A loop or a switch; `at` if it is neither.
  std::optional<size_t> breakable(size_t at) {
    if (word(at) == "__target_switch" || word(at) == "__stage_switch") return body(at + 1, /*is_loop=*/false);
    if (word(at) == "for" || word(at) == "while" || word(at) == "switch") {
      return word(at + 1) == "(" ? body(code_.closing(at + 1) + 1, word(at) != "switch") : fail(at);
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
      code_.insert_behind(begin, " bool " + loop.flag + " = false;");
    } else {
      code_.insert_first(begin, "{ bool " + loop.flag + " = false; ");
      code_.insert_behind(*next - 1, " }");
    }
    return next;
  }

  // `$for (i in Range(0, 3)) { }`: its iterations stand one behind the other.
  std::optional<size_t> unrolled(size_t at, bool breaks) {
    if (word(at + 1) != "for" || word(at + 2) != "(") return fail(at);
    const size_t begin = code_.closing(at + 2) + 1;
    const Exits before = exits();
    const auto next = statement(begin, breaks);
    if (!next) return {};
    const std::string guard = guard_since(before, breaks);
    if (!guard.empty()) code_.insert_first(begin, "if (!" + guard + ") ");
    return next;
  }

  // It runs where its block ends. What stands in it does not leave it.
  std::optional<size_t> deferred(size_t at) {
    if (word(at + 1) != "{") return behind_semicolon(at);
    const size_t close = code_.closing(at + 1);
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
    replace(at, is_in_switch() ? "{ " + set : set);
    if (is_in_switch()) replace(at + 1, "; break; }");
    return at + 2;
  }

  std::optional<size_t> branch(size_t at, bool breaks) {
    if (word(at + 1) != "(") return fail(at);
    const auto then = statement(code_.closing(at + 1) + 1, breaks);
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
    replace(at, target.empty() ? "{" : in_parentheses ? "{ " + target + " (" : "{ " + target);
    const std::string end = !has_value ? "" : in_parentheses ? ");" : ";";
    replace(*next - 1, end + " " + returned() + " = true;" + (breaks ? " break; }" : " }"));
    return next;
  }

  bool is_label(size_t at) const { return code_.is_name(at) && word(at + 1) == ":" && word(at + 2) != ":"; }

  bool is_type(size_t at) const {
    return word(at) == "struct" || word(at) == "enum" || word(at) == "interface" || word(at) == "extension";
  }

  std::optional<size_t> behind_type(size_t at) {
    while (at < code_.size() && word(at) != "{" && word(at) != ";") ++at;
    if (word(at) != "{") return fail(at);
    const size_t close = code_.closing(at);
    return word(close + 1) == ";" ? close + 2 : close + 1;
  }

  bool is_plain(size_t at) const {
    static const std::set<std::string_view> kOthers = {"else", "class", "func", "throw", "try", "catch", "}"};
    return kOthers.count(word(at)) == 0;
  }

  // None if a `return` comes before: then it is no statement that is understood.
  std::optional<size_t> behind_semicolon(size_t begin) {
    const size_t end = code_.first_of(";", begin);
    for (size_t at = begin; at < end; at = opens(word(at)) ? code_.closing(at) + 1 : at + 1) {
      if (word(at) == "return" && at != begin) return fail(begin);
    }
    return end < code_.size() ? std::optional(end + 1) : fail(begin);
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

  SourceCode& code_;
  const std::string type_;  // empty: it returns nothing
  std::string prefix_ = "tsl_";  // of names that the body has not
  std::vector<Loop> loops_;  // and switches, around the statement that is looked at
  size_t returns_ = 0;
  size_t failed_ = 0;
};

bool has_continue(const SourceCode& code, const DifferentiableFunction& function) {
  for (size_t at = function.open; at < function.close; ++at) {
    if (code[at] == "continue") return true;
  }
  return false;
}

// A loop is left by `return`, or gone on with: there Slang is known to be wrong.
bool exits_in_loop(const SourceCode& code, const DifferentiableFunction& function) {
  for (size_t at = function.open; at < function.close; ++at) {
    if (code[at] != "for" && code[at] != "while" && code[at] != "do") continue;
    for (const size_t last = behind_statement(code, at) - 1; at < last; ++at) {
      if (code[at] == "return" || code[at] == "continue") return true;
    }
  }
  return false;
}

}  // namespace

void write_single_exits(SourceCode& code, std::vector<KeptExits>* kept) {
  for (const DifferentiableFunction& function : differentiable_functions(code)) {
    if (!returns_early(code, function) && !has_continue(code, function)) continue;
    const DeclaredFunction declared = declared_function(code, function);
    size_t failed = 0;
    if (declared.type) {
      Body body(code, *declared.type);
      if (body.rewrite(function)) continue;
      failed = body.failed();
    }
    if (kept == nullptr || !exits_in_loop(code, function)) continue;
    kept->push_back({declared.name, code.location(failed == 0 ? function.attribute : failed),
                     failed == 0 ? "" : std::string(code[failed])});
  }
}

std::vector<KeptExits> all_kept_exits(const SourceCode& code) {
  std::vector<KeptExits> kept;
  for (const DifferentiableFunction& function : differentiable_functions(code)) {
    if (!exits_in_loop(code, function)) continue;
    kept.push_back({declared_function(code, function).name, code.location(function.attribute), ""});
  }
  return kept;
}

}  // namespace torch_slang
