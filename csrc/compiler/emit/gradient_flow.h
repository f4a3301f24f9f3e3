// Which variables of a function's emitted text have data dependences on gradients. Repairs ask, so that they change no value of the user's.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "compiler/emit/flow_walk.h"

namespace torch_slang {

// Slang's name of the function that computes a function's gradients, and its arguments from the forward part.
inline constexpr std::string_view kBackward = "s_bwdProp_";
inline constexpr std::string_view kContext = "s_bwdCallableCtx_";

// Variables whose values depend on gradients.
struct GradientNames : std::set<std::string> {
  void join(const GradientNames& other) { insert(other.begin(), other.end()); }
};

// Note [gradient flow]
//   A backward's text computes again what the user's code computed, and then gradients, in variables that Slang uses for
//   either. Gradients come from the parameters of `s_bwdProp_` functions but for their context, from `differential` fields
//   where these hold no tangents, from views' gradients, and from calls of other backwards; whatever is computed from these depends on them. They are
//   followed from statement to statement (flow_walk.h).
class GradientFlow : FlowWalk<GradientNames> {
 public:
  GradientFlow(const EmittedCode& code, const EmittedFunction& function);

  // Whether the variable that the statement assigns depends on gradients behind it.
  bool reaches(const EmittedStatement& statement) const { return reaches_at(statement.span.begin); }
  bool reaches_at(size_t begin) const { return reached_.count(begin) > 0; }

 private:
  void simple(const EmittedStatement& statement, GradientNames& gradients) override;
  bool depends(Span span, const GradientNames& gradients) const;

  std::set<size_t> reached_;
};

// The function as its user knows it: without what Slang puts before and behind its name.
std::string users_name(std::string_view function);

}  // namespace torch_slang
