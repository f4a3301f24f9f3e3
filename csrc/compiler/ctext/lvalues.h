// Lvalues: the left sides of assignments, and which parts of variables they name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ctext/tree.h"

namespace torch_slang {

inline constexpr std::string_view kElement = "_slang_vector_get_element_ptr";  // of a vector, by index: no call

// A step from an aggregate to a part of it. Two steps at one depth name different parts only if both are literal and differ.
struct Step {
  std::string text;
  bool literal = false;  // a field, a component, or a number
};

// A variable, or a part of it.
struct LValue {
  std::string variable;
  std::vector<Step> steps;
};

bool may_overlap(const std::vector<Step>& a, const std::vector<Step>& b);

struct Assignment {
  enum class Kind {
    Declare,  // T x = value;  or  T x;  (then the value is empty)
    Whole,  // x = value;
    Part,  // x[i] = value;  (&x)->field = value;  *&((&x)->y) = value;
    Other,  // through a pointer, `+=`, and unknown forms
  };
  Kind kind = Kind::Other;
  LValue left;
  Span value;
};

// The statement as an assignment; none if it is no assignment. Passes ask EmittedCode, which reads each one once.
std::optional<Assignment> read_assignment(const Code& code, const EmittedStatement& statement);
// The part of a variable that the expression names, and nothing else.
std::optional<LValue> lvalue_of(const Code& code, Span expression);

}  // namespace torch_slang
