// Whether a backward is the transpose of its forward derivative.
//
// Note [audits]
//   For directions t of the inputs and g of the outputs, (g, J t) = (J^T g, t). Slang makes J t and J^T g in different ways, so a
//   fault of one is no fault of the other, and shows as a difference of the two numbers: of a plain function at each of some
//   elements, of a kernel in sums over all. Where they differ by more than rounding, central differences of (g, f(x + s t)) say
//   which is wrong, as far as they have digits: only points count at which f is smooth along t, from both sides, and at which
//   differences of two steps are nearer to each other than the two derivatives are. One point is not enough.
//   The rounding error is relative to the numbers inside the function, which an audit does not see: the derivative of x * y - y * x is
//   rounding error alone. J (s t) / s has another rounding error than J t. So where the two derivatives differ, their difference is
//   compared with that of J (s t) / s and J t.
//   Points are the call's own, others near them, and, of plain functions, others of both signs and small integers, so that branches and
//   loops are gone through which the first call does not know.
//   Both derivatives may lose the same part, and then they agree and are wrong. So both are compared with central differences, too.
//   Central differences cannot judge two kinds of functions. In one the user makes a value constant (no_diff, detach): differences
//   vary it all the same. The other converts to fewer bits: the derivative is 1 by definition, and differences show the rounding. A
//   function that may be of these kinds (`has_constants`) is not called wrong where its two derivatives agree.
//   A second derivative, the gradient of (g, J t), is compared with central differences of J t, which the first audit compared. They
//   vary constants too: for a function that may have one, explain() tells of a difference, and nothing raises.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "audit/derivatives.h"
#include "audit/finding.h"

namespace torch_slang::audit {

// What numbers of a type allow.
struct Precision {
  double agreement;  // a smaller difference is rounding; relative to the sum of the absolute values of all terms
  double step;  // of central differences, in parts of an input's size
  double fine_step;  // a much smaller one
  int points;  // how many have to show that a derivative is wrong
};
constexpr Precision kDouble{1e-6, 1e-4, 1e-9, 2}, kSingle{2e-2, 2e-2, 4e-3, 8};

// How large the rounding error of product(1) may be. product(s) is one of the two products with t or g scaled by s, so it should be
// linear in s. The numbers inside the function may be much larger than the product, so the rounding is measured: product(s) / s differs
// for several s (Note [audits]). Scaling by 2 rounds nothing: where product(2) / 2 differs, the derivative is wrong, and the result is 0.
at::Tensor rounding_of(const std::function<at::Tensor(double)>& product);

struct Verdict {
  Outcome outcome;
  std::string text;
};
// `has_constants`: central differences need not be the derivative.
Verdict compare_first(Derivatives& derivatives, const Precision& precision, bool has_constants);
Verdict compare_second(Derivatives& derivatives, const Precision& precision, bool has_constants);

}  // namespace torch_slang::audit
