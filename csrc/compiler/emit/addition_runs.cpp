#include "compiler/emit/addition_runs.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace torch_slang {
namespace {

constexpr int kMostMeeting = 12;  // as in prelude/meetings.h

// What may see whether an addition before it was made: it takes or sets gradients, or other threads may look after it.
bool must_follow_additions(std::string_view name) {
  for (const char* prefix : {"tsl_take", "tsl_set", "tsl_add", "atomic", "__slang_atomic", "__sync", "__threadfence"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

class AdditionRuns {
 public:
  explicit AdditionRuns(EmittedCode& code) : code_(code) {
    for (const EmittedFunction& function : code.functions()) functions_.emplace(function.name, Facts{&function});
  }

  int mark() {
    int seen = 0;
    for (const EmittedFunction& function : code_.functions()) {
      seen += additions_in(function.body.span);
      for_each_call(function.body.span, [&](std::string_view name) { called_.insert(name); });
    }
    // An addition that lies in no run would wait for the end of one for ever.
    if (seen < additions_in({0, code_.size()})) return 0;
    for (const EmittedFunction& function : code_.functions()) {
      const Facts& facts = facts_of(function.name);
      // The run lies in the callers, then.
      if (facts.is_straight && called_.count(function.name) > 0) continue;
      mark_in(function.body);
    }
    if (has_hidden_) return 0;
    for (const Run& run : runs_) {
      code_.insert(run.begin, "TSL_MEET_BEGIN; ");
      code_.insert_behind(run.end - 1, " TSL_MEET_END;");
    }
    return static_cast<int>(runs_.size());
  }

 private:
  using Kind = EmittedStatement::Kind;

  struct Facts {
    const EmittedFunction* function;
    int numbers = -1;  // that one call adds; -1: not counted yet
    bool is_straight = true;  // no branch stands around or between its additions, and they fit in one run
  };

  const Facts& facts_of(std::string_view name) {
    Facts& facts = functions_.at(name);
    if (facts.numbers >= 0) return facts;
    facts.numbers = 0;  // Slang has no recursion
    int numbers = 0;
    bool is_straight = true;
    count(facts.function->body, numbers, is_straight);
    facts.numbers = numbers;
    facts.is_straight = is_straight && numbers <= kMostMeeting;
    return facts;
  }

  void count(const EmittedStatement& statement, int& numbers, bool& is_straight) {
    if (statement.kind == Kind::Block) {
      for (const EmittedStatement& part : statement.parts) count(part, numbers, is_straight);
      return;
    }
    int inside = 0;
    count_calls(statement.span, inside, is_straight);
    numbers += inside;
    if (statement.kind != Kind::Simple && (inside > 0 || leaves(statement.span))) is_straight = false;
  }

  int additions_in(Span span) const {
    int count = 0;
    for (size_t at = span.begin; at < span.end; ++at) count += code_[at] == "tsl_accumulate" ? 1 : 0;
    return count;
  }

  // Whether what follows the statement may not run.
  bool leaves(Span span) const {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] == "return") return true;
    }
    return false;
  }

  template <class F>
  void for_each_call(Span span, const F& f) {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_.is_name(at) && code_[at + 1] == "(" && functions_.count(code_[at]) > 0) f(code_[at]);
    }
  }

  void count_calls(Span span, int& numbers, bool& is_straight) {
    for (size_t at = span.begin; at < span.end; ++at) {
      if (code_[at] == "tsl_accumulate") numbers += numbers_in(at + 1, span.end);
      if (must_follow_additions(code_[at])) is_straight = false;
    }
    for_each_call(span, [&](std::string_view name) {
      const Facts& callee = facts_of(name);
      numbers += callee.numbers;
      is_straight = is_straight && callee.is_straight;
    });
  }

  // Of the type in angle brackets from `open` on: `float`, `float3`, `Matrix<float, 2, 2>`, `FixedArray<float, 4>`. Too many of
  // a struct, which has a run to itself.
  int numbers_in(size_t open, size_t end) const {
    const std::string_view name = code_[open + 1];
    int numbers = 1;
    for (size_t at = open + 2, close = code_.closing_angle(open, end); at < close; ++at) {
      if (code_.is_number(at)) numbers *= std::atoi(std::string(code_[at]).c_str());
    }
    const char last = name.back();
    if (numbers == 1 && last >= '2' && last <= '4' && name.find('_') == std::string_view::npos) numbers = last - '0';
    return numbers;
  }

  struct Run {
    int numbers = 0;
    size_t begin = 0, end = 0;  // from the first addition to behind the last one
  };

  void mark_in(const EmittedStatement& statement) {
    if (statement.kind != Kind::Block) {
      look_for_hidden(statement.head);
      for (const EmittedStatement& part : statement.parts) mark_in(part);
      return;
    }
    Run run;
    for (const EmittedStatement& part : statement.parts) {
      int numbers = 0;
      bool is_straight = part.kind == Kind::Simple;
      if (is_straight) count_calls(part.span, numbers, is_straight);
      if (!is_straight) {
        end(run);
        mark_in(part);
      } else if (numbers > 0) {
        if (code_[part.span.begin] == "return") has_hidden_ = true;
        if (run.numbers + numbers > kMostMeeting) end(run);
        if (run.numbers == 0) run.begin = part.span.begin;
        run.numbers += numbers;
        run.end = part.span.end;
      }
    }
    end(run);
  }

  void end(Run& run) {
    if (run.numbers > 0) runs_.push_back(run);
    run = Run();
  }

  // Additions by a condition or a returned value have no place for the end of a run behind them. (Slang makes none.)
  void look_for_hidden(Span span) {
    int numbers = 0;
    bool is_straight = true;
    count_calls(span, numbers, is_straight);
    has_hidden_ = has_hidden_ || (numbers > 0 && is_straight);
  }

  EmittedCode& code_;
  std::map<std::string_view, Facts> functions_;
  std::set<std::string_view> called_;
  std::vector<Run> runs_;
  bool has_hidden_ = false;
};

}  // namespace

int mark_addition_runs(EmittedCode& code) { return AdditionRuns(code).mark(); }

}  // namespace torch_slang
