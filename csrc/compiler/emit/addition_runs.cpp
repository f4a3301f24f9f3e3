#include "compiler/emit/addition_runs.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "prelude/abi.h"

namespace torch_slang {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What a statement, or a call of a function, adds.
struct Additions {
  int count = 0;
  int numbers = 0;  // of those that a run sums
  uint64_t starts = 0;  // bit n: an element begins with the n-th number
  bool has_others = false;  // of types that no run sums
  int only = 0;  // of them the user's own: Note [seen additions] in prelude/wave_sums.h
  bool is_straight = true;  // whoever comes here makes all of them: no branch stands around or between them
  bool reaches_memory = false;  // by other means than additions, or it may

  void add(const Additions& other) {
    count += other.count;
    if (numbers <= kTslMostInRun) starts |= other.starts << numbers;
    numbers += other.numbers;
    has_others = has_others || other.has_others;
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

  int write() {
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
      if (!lies_in_callers) write_in(function.body);
    }
    is_beside_others_ =
        std::erase_if(runs_, [&](const Run& run) { return adds_at_once(run); }) > 0 || is_beside_others_;
    for (size_t i = 0; i < runs_.size(); ++i) write(runs_[i], c10::str("tsl_sums_", i));
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
    const EmittedStatement* block = nullptr;  // that it lies in
    const EmittedStatement* loop = nullptr;  // the body of the innermost loop around it
    const EmittedStatement* iteration = nullptr;  // the loop's body at whose end it is summed
  };

  // Where a run waits for the end of an iteration, a number beside it is compared and summed by itself. So is one of the user's
  // own.
  bool adds_at_once(const Run& run) const {
    const auto waits_around = [&](const Run& other) {
      return other.iteration != nullptr && other.iteration->span.begin < run.begin &&
             run.end < other.iteration->span.end;
    };
    return is_single(run) && (run.additions.only > 0 || std::any_of(runs_.begin(), runs_.end(), waits_around));
  }

  static bool is_single(const Run& run) { return run.additions.numbers == 1 && run.iteration == nullptr; }

  void write(const Run& run, const std::string& label) {
    const std::string arguments = c10::str(run.additions.numbers, ", ", run.additions.starts);
    code_.insert(run.begin,
                 c10::str(is_beside_others_ ? "TSL_SUMS_BEGIN_BESIDE(" : "TSL_SUMS_BEGIN(", arguments, "); "));
    if (run.iteration == nullptr) {
      const char* const end = run.additions.only > 0 ? " TSL_SUMS_END_SEEN(" : " TSL_SUMS_END(";
      code_.insert_behind(run.end - 1, c10::str(end, arguments, ");"));
      return;
    }
    code_.insert_behind(run.end - 1, " TSL_SUMS_WAIT();");
    const Span body = run.iteration->span;
    code_.insert_behind(body.begin, " {");
    for_each_continue(*run.iteration, [&](const EmittedStatement& statement) {
      code_.replace({statement.span.begin, statement.span.begin + 1}, c10::str("TSL_SUMS_NEXT(", label, ")"));
    });
    code_.insert(body.end - 1, c10::str("} TSL_SUMS_JOIN(", label, ", ", arguments, "); "));
  }

  // Those that end an iteration of this body's loop.
  template <class F>
  void for_each_continue(const EmittedStatement& statement, const F& f) const {
    if (statement.kind == Kind::Continue) f(statement);
    for (const EmittedStatement& part : statement.parts) {
      if (!part.is_loop()) for_each_continue(part, f);
    }
  }

  Additions of_function(std::string_view name) {
    Known& known = functions_.at(name);
    if (known.is_known) return known.additions;
    known.is_known = true;  // Slang has no recursion
    Additions additions = of_statement(known.function->body);
    additions.is_straight = additions.is_straight && additions.numbers <= kTslMostInRun &&
                            !(additions.only > 0 && additions.reaches_memory);
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
    const bool is_simple = statement.is_leaf() && additions.is_straight && !is_conditional(statement.span);
    additions.is_straight = !leaves(statement.span) && (additions.count == 0 || is_simple);
    return additions;
  }

  // `return;` or `return value;` of a value that nothing is added for.
  bool is_plain_return(const EmittedStatement& statement) {
    return statement.kind == Kind::Return && in(statement.span).count == 0;
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
        const size_t type_end = code_.closing_angle(at + 1, span.end);
        add_element(additions, is_recorded(type_end + 1, span.end) ? Span() : Span{at + 2, type_end});
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
    Additions element;
    element.numbers = numbers_of(type);
    element.starts = element.numbers > 0 ? 1 : 0;
    element.has_others = element.numbers == 0;
    additions.add(element);
  }

  // The last argument is the mode of accumulation, which is above zero for recorded ones.
  bool is_recorded(size_t open, size_t end) const {
    size_t last = code_.closing(open, end);
    while (last > open && code_[last] == ")") --last;
    return code_[last] != "0" && code_[last - 1] != "-";
  }

  // Of an element of this type, if it is made of floats, and not of too many.
  int numbers_of(Span type) const {
    if (type.size() != 1) return 0;
    const std::string_view name = code_[type.begin];
    if (name == "float") return 1;
    if (name == "float2" || name == "float3" || name == "float4") return name.back() - '0';
    const auto& structs = code_.structs();
    const auto found = std::find_if(structs.begin(), structs.end(), [&](const auto& one) { return one.name == name; });
    if (found == structs.end()) return 0;
    int numbers = 0;
    for (const EmittedField& field : found->fields) {
      const int more = field.is_pointer ? 0 : numbers_of(field.type);
      if (more == 0 || numbers + more > kTslMostInRun) return 0;
      numbers += more;
    }
    return numbers;
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

  void write_in(const EmittedStatement& statement) {
    if (statement.kind != Kind::Block) {
      const size_t before = runs_.size();
      const EmittedStatement* const around = loop_;
      if (statement.is_loop()) loop_ = &statement.parts[0];
      for (const EmittedStatement& part : statement.parts) write_in(part);
      if (statement.is_loop()) join_at_end(*loop_, before);
      loop_ = around;
      const Span alone = statement.is_leaf() ? statement.span : statement.head;
      is_beside_others_ = is_beside_others_ || adds_itself(alone);
      return;
    }
    Run run;
    for (const EmittedStatement& part : statement.parts) {
      const Additions additions = of_statement(part);
      if (!part.is_leaf() || leaves(part.span) || (additions.count > 0 && !additions.is_straight)) {
        end(run, statement);
        write_in(part);
      } else if (run.additions.only > 0 && additions.reaches_memory) {
        end(run, statement);  // the statement may read an element that the run has yet to add to
        extend(run, additions, part.span);
      } else if (additions.count > 0) {
        if (run.additions.numbers + additions.numbers > kTslMostInRun) end(run, statement);
        extend(run, additions, part.span);
      }
    }
    end(run, statement);
  }

  // Of a loop whose body has had `before` runs before it.
  void join_at_end(const EmittedStatement& body, size_t before) {
    if (body.kind != Kind::Block) return;
    std::vector<Run*> kept, singles;  // those that keep what they are given
    for (size_t i = before; i < runs_.size(); ++i) (is_single(runs_[i]) ? singles : kept).push_back(&runs_[i]);
    if (kept.empty()) kept = singles;
    if (kept.size() != 1) return;
    Run& run = *kept.front();
    if (run.additions.only > 0 || run.iteration != nullptr) return;
    if (run.loop == &body && may_be_passed(run, body) && may_wait_for_the_end_of(body, run)) run.iteration = &body;
  }

  bool may_be_passed(const Run& run, const EmittedStatement& body) const {
    bool is_passed = run.block != &body;
    for_each_continue(body,
                      [&](const EmittedStatement& jump) { is_passed = is_passed || jump.span.begin < run.begin; });
    return is_passed;
  }

  // What waits would be lost where a lane leaves the loop, and in a function that has runs of its own.
  bool may_wait_for_the_end_of(const EmittedStatement& body, const Run& run) {
    bool may = true;
    for_each_simple(body, [&](const EmittedStatement& statement) {
      const bool is_behind = statement.span.begin >= run.end;
      may = may && !(is_behind && leaves(statement.span) && code_[statement.span.begin] != "continue");
    });
    for_each_call({run.end, body.span.end}, [&](std::string_view name) {
      const Additions called = of_function(name);
      may = may && (called.count == 0 || called.is_straight);
    });
    return may;
  }

  // The run goes on, or begins, with this statement.
  static void extend(Run& run, const Additions& additions, Span statement) {
    if (additions.count == 0) return;
    if (run.additions.count == 0) run.begin = statement.begin;
    run.additions.add(additions);
    run.end = statement.end;
  }

  void end(Run& run, const EmittedStatement& block) {
    run.block = &block;
    run.loop = loop_;
    if (run.additions.numbers > 0) runs_.push_back(run);
    is_beside_others_ = is_beside_others_ || run.additions.has_others;
    run = Run();
  }

  EmittedCode& code_;
  std::map<std::string_view, Known> functions_;
  std::vector<Run> runs_;
  const EmittedStatement* loop_ = nullptr;  // the body of the innermost loop that the statement lies in
  bool has_addresses_ = false;  // of views' memory, which is read then without a word that tells so
  bool is_beside_others_ = false;  // some additions lie in no run, or are of a type that no run sums
};

}  // namespace

int write_addition_runs(EmittedCode& code) {
  bool adds = false;
  for (size_t at = 0; at < code.size() && !adds; ++at)
    adds = code[at] == "tsl_accumulate" || code[at] == "tsl_add_only";
  return adds ? AdditionRuns(code).write() : 0;
}

}  // namespace torch_slang
