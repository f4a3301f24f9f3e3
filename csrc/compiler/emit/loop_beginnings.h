// Part of the pass of missing_names.h: the first value of a loop's counter, which Slang's backward may lack. The forward part is
// made to keep it.
#pragma once

#include <map>
#include <string>

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [loop beginnings]
//   Slang 2026.12 keeps no counter that steps by a constant. Its backward computes it from how often the loop has run, and
//   from what it began with; where that is no number, the text names a temporary that stands nowhere:
//     int _dc_0 = (&context->value1_2)->value1_0 - int(1);  ...  int _S12 = _dc_0 * int(2) + _S13;
//   The forward part knows it: right before the loop that keeps `value1_0`, its number of iterations, it is what the variable
//   holds that this loop adds the step to. So the context gets a field for it beside `value1_0`, of the same type: an array
//   where the loop is inside another.
class LoopBeginnings {
 public:
  explicit LoopBeginnings(EmittedCode& code);

  // The statement of the function names the missing temporary at `at`. False if that is no loop's first value, or if it cannot
  // be told which variable of that loop is meant.
  bool restore(const EmittedFunction& function, const EmittedStatement& statement, size_t at);

 private:
  // Where the forward part notes how often a loop has run: `(&context)->value1_0[counters] = _pc_0;`.
  struct Forward {
    const EmittedFunction* function = nullptr;
    const EmittedStatement* loop = nullptr;
    Span lvalue;
  };

  void find_notes(const EmittedFunction& function, const EmittedStatement& statement, const EmittedStatement* loop);
  using Values = std::multimap<std::string, Span>;  // that the loop assigns

  std::string counter(const Forward& forward, const std::string& step) const;
  std::string step_of(const std::string& variable, const Values& values) const;
  std::string with_field(Span lvalue, const std::string& field, const std::string& other) const;
  bool declare(const std::string& field, const std::string& other);

  EmittedCode& code_;
  std::map<std::string, Forward> forwards_;  // by field
  std::map<std::pair<std::string, std::string>, std::string> beginnings_;  // fields that were added, by loop and step
};

}  // namespace torch_slang
