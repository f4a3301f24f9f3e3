#include "compiler/emit/addition_runs.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {
namespace {

constexpr int kMostInRun = 12;  // numbers, as in prelude/wave_sums.h

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What a statement, or a call of a function, adds.
struct Additions {
  int count = 0;
  int numbers = 0;  // of those that a run sums
  unsigned sizes = 0;  // bit n: there are elements of n numbers; bit 0: of a type that no run sums
  int only = 0;  // of them the user's own: Note [seen additions] in prelude/wave_sums.h
  bool is_straight = true;  // whoever comes here makes all of them: no branch stands around or between them
  bool reaches_memory = false;  // by other means than additions, or it may

  void add(const Additions& other) {
    count += other.count;
    numbers += other.numbers;
    sizes |= other.sizes;
    only += other.only;
    is_straight = is_straight && other.is_straight;
    reaches_memory = reaches_memory || other.reaches_memory;
  }
};

class AdditionRuns {
 public:
  explicit AdditionRuns(EmittedCode& code) : code_(code) {
    for (const EmittedFunction& function : code.functions())
      functions_.emplace(function.name, Known{&function, false, {}});
  }

  int mark() {
    for (size_t at = 0; at < code_.size(); ++at) has_addresses_ = has_addresses_ || code_[at] == "data_ptr";
    std::set<std::string_view> called;
    for (const EmittedFunction& function : code_.functions()) {
      for_each_call(function.body.span, [&](std::string_view name) { called.insert(name); });
    }
    for (const EmittedFunction& function : code_.functions()) {
      if (functions_.at(function.name).function != &function) return 0;  // two of one name, which Slang does not write
    }
    for (const EmittedFunction& function : code_.functions()) {
      const bool lies_in_callers = called.count(function.name) > 0 && of_function(function.name).is_straight;
      if (!lies_in_callers) mark_in(function.body);
    }
    const char* const begin = is_beside_others_ ? "TSL_SUMS_BEGIN_BESIDE(" : "TSL_SUMS_BEGIN(";
    for (const Run& run : runs_) {
      const std::string arguments = c10::str(run.additions.numbers, ", ", run.additions.sizes & ~1u);
      code_.insert(run.begin, c10::str(begin, arguments, "); "));
      code_.insert_behind(run.end - 1,
                          c10::str(run.additions.only > 0 ? " TSL_SUMS_END_SEEN(" : " TSL_SUMS_END(", arguments, ");"));
    }
    return static_cast<int>(runs_.size());
  }

 private:
  using Kind = EmittedStatement::Kind;

  struct Known {
    const EmittedFunction* function;
    bool is_known = false;
    Additions additions;
  };

  struct Run {
    Additions additions;
    size_t begin = 0, end = 0;  // from the first addition to behind the last one
  };

  Additions of_function(std::string_view name) {
    Known& known = functions_.at(name);
    if (known.is_known) return known.additions;
    known.is_known = true;  // Slang has no recursion
    Additions additions = of_statement(known.function->body);
    additions.is_straight =
        additions.is_straight && additions.numbers <= kMostInRun && !(additions.only > 0 && additions.reaches_memory);
    return functions_.at(name).additions = additions;
  }

  Additions of_statement(const EmittedStatement& statement) {
    Additions additions;
    if (statement.kind == Kind::Block) {
      for (size_t i = 0; i < statement.parts.size(); ++i) {
        const bool is_last_return = i + 1 == statement.parts.size() && is_plain_return(statement.parts[i]);
        additions.add(is_last_return ? in(statement.parts[i].span) : of_statement(statement.parts[i]));
      }
      return additions;
    }
    additions = in(statement.span);
    const bool is_simple = statement.kind == Kind::Simple && additions.is_straight && !is_conditional(statement.span);
    additions.is_straight = !leaves(statement.span) && (additions.count == 0 || is_simple);
    return additions;
  }

  // `return;` or `return value;` of a value that nothing is added for.
  bool is_plain_return(const EmittedStatement& statement) {
    return statement.kind == Kind::Simple && code_[statement.span.begin] == "return" && in(statement.span).count == 0;
  }

  Additions in(Span span) {
    Additions additions;
    additions.reaches_memory = has_addresses_;
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] == "tsl_add_only") {
        ++additions.count;
        ++additions.only;
        while (at < span.end && code_[at] != "data_ptr_at") ++at;  // the view comes first
        add_element(additions, {at + 2, code_.closing_angle(at + 1, span.end)});
      } else if (code_[at] == "tsl_accumulate") {
        ++additions.count;
        add_element(additions, {at + 2, code_.closing_angle(at + 1, span.end)});
      } else if (reaches_memory(code_[at])) {
        additions.reaches_memory = true;
      }
    }
    for_each_call(span, [&](std::string_view name) { additions.add(of_function(name)); });
    return additions;
  }

  // Loads and stores of views, their addresses, atomic operations, and what orders memory.
  static bool reaches_memory(std::string_view word) {
    return is_one_of(word, {"load", "store", "data_ptr", "data_ptr_at"}) || word.starts_with("atomic") ||
           word.starts_with("__");
  }

  void add_element(Additions& additions, Span type) const {
    const int numbers = numbers_of(type);
    additions.numbers += numbers;
    additions.sizes |= 1u << static_cast<unsigned>(numbers);
  }

  // Of an element of this type, if a run sums such.
  int numbers_of(Span type) const {
    if (type.size() != 1) return 0;
    const std::string_view name = code_[type.begin];
    return name == "float" ? 1 : name == "float2" ? 2 : name == "float3" ? 3 : name == "float4" ? 4 : 0;
  }

  template <class F>
  void for_each_call(Span span, const F& f) {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_.is_name(at) && code_[at + 1] == "(" && functions_.count(code_[at]) > 0) f(code_[at]);
    }
  }

  // Whether there are additions that do not lie in a function which has runs of its own.
  bool adds_itself(Span span) {
    int elsewhere = 0;
    for_each_call(span, [&](std::string_view name) {
      if (const Additions called = of_function(name); !called.is_straight) elsewhere += called.count;
    });
    return in(span).count > elsewhere;
  }

  // Whether what follows may not run, or something else than what stands before comes to it.
  bool leaves(Span span) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (is_one_of(code_[at], {"return", "break", "continue", "goto", "case", "default"})) return true;
    }
    return false;
  }

  // Whether a part may not run: a ? b : c, a && b, a || b.
  bool is_conditional(Span span) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      const bool is_pair = code_[at] == code_[at + 1] && code_.is_joined(at);
      if (code_[at] == "?" || (is_pair && is_one_of(code_[at], {"&", "|"}))) return true;
    }
    return false;
  }

  void mark_in(const EmittedStatement& statement) {
    if (statement.kind != Kind::Block) {
      for (const EmittedStatement& part : statement.parts) mark_in(part);
      const Span alone = statement.kind == Kind::Simple ? statement.span : statement.head;
      is_beside_others_ = is_beside_others_ || adds_itself(alone);
      return;
    }
    Run run;
    for (const EmittedStatement& part : statement.parts) {
      const Additions additions = of_statement(part);
      if (part.kind != Kind::Simple || leaves(part.span) || (additions.count > 0 && !additions.is_straight)) {
        end(run);
        mark_in(part);
      } else if (run.additions.only > 0 && additions.reaches_memory) {
        end(run);  // the statement may read an element that the run has yet to add to
        extend(run, additions, part.span);
      } else if (additions.count > 0) {
        if (run.additions.numbers + additions.numbers > kMostInRun) end(run);
        extend(run, additions, part.span);
      }
    }
    end(run);
  }

  // The run goes on, or begins, with this statement.
  static void extend(Run& run, const Additions& additions, Span statement) {
    if (additions.count == 0) return;
    if (run.additions.count == 0) run.begin = statement.begin;
    run.additions.add(additions);
    run.end = statement.end;
  }

  void end(Run& run) {
    // One addition is compared and summed by itself as well.
    const bool is_run = run.additions.count > 1 && run.additions.numbers > 1;
    if (is_run) runs_.push_back(run);
    is_beside_others_ = is_beside_others_ || (run.additions.sizes & 1u) != 0 || (!is_run && run.additions.count > 0);
    run = Run();
  }

  EmittedCode& code_;
  std::map<std::string_view, Known> functions_;
  std::vector<Run> runs_;
  bool has_addresses_ = false;  // of views' memory, which is read then without a word that tells so
  bool is_beside_others_ = false;  // some additions lie in no run, or are of a type that no run sums
};

}  // namespace

int mark_addition_runs(EmittedCode& code) { return AdditionRuns(code).mark(); }

}  // namespace torch_slang
