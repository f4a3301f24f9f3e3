#include "audit/comparison.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/StringUtil.h>

#include <cmath>
#include <functional>

#include "common/log.h"

namespace torch_slang::audit {
namespace {

constexpr int kSingleDraws = 16;

enum class Where : int8_t { Given, Near, Elsewhere };
constexpr Where kDraws[] = {Where::Given, Where::Near, Where::Elsewhere, Where::Given, Where::Near, Where::Elsewhere};

class Draws {
 public:
  // Between -1 and 1.
  at::Tensor like(const at::Tensor& tensor) {
    const auto options = tensor.options().dtype(at::kDouble);
    return at::rand(tensor.sizes(), generator_, options).mul_(2).sub_(1).to(tensor.scalar_type());
  }

  Tensors like(const Tensors& tensors) {
    Tensors drawn;
    for (const at::Tensor& one : tensors) drawn.push_back(like(one));
    return drawn;
  }

  // Numbers of both signs, more of them between 0.5 and 1.5.
  Tensors elsewhere(const Tensors& tensors) {
    Tensors drawn;
    for (const at::Tensor& one : tensors)
      drawn.push_back(at::where(like(one) < 0, 3 * like(one), 1 + 0.5 * like(one)).to(one.scalar_type()));
    return drawn;
  }

  // Every second one as it is, others below 8.
  at::Tensor integers(const at::Tensor& tensor) {
    const at::Tensor numbers = tensor.to(at::kDouble);
    const at::Tensor others = (4 * (like(numbers) + 1)).floor();
    return at::where(like(numbers) < 0, numbers, others).to(tensor.scalar_type());
  }

  // As large as the inputs' elements, and not 0 where those are.
  Tensors directions(const Tensors& x) {
    Tensors drawn;
    for (const at::Tensor& one : x) {
      const at::Tensor finite = one.nan_to_num(0, 0, 0).abs();
      const double mean = finite.numel() == 0 ? 0 : finite.to(at::kDouble).mean().item<double>();
      drawn.push_back(like(one) * (finite + (mean == 0 ? 1 : 0.1 * mean)));
    }
    return drawn;
  }

 private:
  at::Generator generator_ = at::detail::createCPUGenerator(20261128);
};

Tensors moved(const Tensors& x, double step, const Tensors& t) {
  Tensors all;
  for (size_t i = 0; i < x.size(); ++i) all.push_back((x[i] + step * t[i]).to(x[i].scalar_type()));
  return all;
}

Tensors scaled(const Tensors& tensors, double factor) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back((factor * one).to(one.scalar_type()));
  return all;
}

// Gradients of outputs; 0 where there is no number: a kernel left that unwritten, or it is no point to look at. `is_single`: of one
// element alone.
Tensors gradients_for(const Tensors& outputs, Draws& draws, bool is_single) {
  Tensors g;
  double most = -1;
  for (const at::Tensor& one : outputs) {
    const at::Tensor drawn = draws.like(one);
    g.push_back(at::where(one.isfinite(), drawn, at::zeros_like(drawn)));
    if (drawn.numel() > 0) most = std::max(most, g.back().abs().max().item<double>());
  }
  for (size_t i = 0; is_single && i < g.size(); ++i) g[i] = at::where(g[i].abs() == most, g[i], at::zeros_like(g[i]));
  return g;
}

Tensors without_nan(const Tensors& tensors, const Tensors& g) {
  Tensors all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    all.push_back(at::where(g[i] == 0, at::zeros_like(tensors[i]), tensors[i]));
  }
  return all;
}

// The derivative of a function of one number at 0, by row, and whether it can be told.
struct Slopes {
  at::Tensor slope;
  at::Tensor error;  // about
  at::Tensor is_smooth;
};

Slopes central_differences(const std::function<at::Tensor(double)>& value, double step) {
  const at::Tensor middle = value(0);
  const auto both = [&](double h) {
    const at::Tensor right = (value(h) - middle) / h, left = (middle - value(-h)) / h;
    return std::pair{(right + left) / 2, right - left};
  };
  const auto [wide, wide_turn] = both(step);
  const auto [near, near_turn] = both(step / 2);
  const at::Tensor slope = (4 * near - wide) / 3;
  const at::Tensor rounding = 1e-13 * middle.abs() / step;
  // At a kink, right and left stay as far apart as the step shrinks; else they come near in proportion.
  const at::Tensor is_smooth = near_turn.abs() <= 0.75 * wide_turn.abs() + 1e-3 * step * slope.abs() + rounding;
  return {slope, (near - wide).abs() + rounding, is_smooth.logical_and(slope.isfinite())};
}

// Where a step should change the value by more, differences cannot say that a derivative is lost: they do not see the sine of a
// large number, whose slope is large too.
constexpr double kMostChange = 100;

// The rounding error of a product may be so many times the difference that rounding_of measures.
constexpr double kRoundings = 100;

// How the points of one draw compare.
struct Points {
  int64_t finite = 0, apart = 0, wrong = 0, wrong_tangents = 0;
  int64_t both_wrong = 0;  // where they agree with each other
  // Of the first wrong one: the reference, the derivative that is audited, central differences.
  double other = 0, found = 0, slope = 0;
  int64_t row = -1;

  void add(const Points& more) {
    finite += more.finite;
    apart += more.apart;
    wrong += more.wrong;
    wrong_tangents += more.wrong_tangents;
    both_wrong += more.both_wrong;
    if (row >= 0 || more.row < 0) return;
    other = more.other;
    found = more.found;
    slope = more.slope;
    row = more.row;
  }
};

// What is compared, by row.
struct Products {
  at::Tensor reference, found;
  at::Tensor terms;  // of the summands of both products, the sum of the absolute values: rounding is relative to it
  at::Tensor rounding = at::zeros_like(terms);  // rounding_of both; 0 where it was not called

  at::Tensor are_finite() const {
    return reference.isfinite().logical_and(found.isfinite()).logical_and(terms.isfinite());
  }
  at::Tensor are_apart(const Precision& precision) const {
    return are_finite().logical_and((reference - found).abs() > precision.agreement * terms + rounding);
  }
};

int64_t count(const at::Tensor& rows) { return rows.sum().item<int64_t>(); }

// Makes the first of the rows the one that messages name.
void name_first(Points& points, const at::Tensor& rows, const Products& products, const Slopes& known) {
  points.row = rows.to(at::kLong).argmax().item<int64_t>();
  points.other = products.reference[points.row].item<double>();
  points.found = products.found[points.row].item<double>();
  points.slope = known.slope[points.row].item<double>();
}

Points compare(const Products& products, const Slopes& known, const Precision& precision) {
  Points points;
  const at::Tensor distance = (products.reference - products.found).abs();
  const at::Tensor apart = products.are_apart(precision);
  const at::Tensor can_tell = apart.logical_and(known.is_smooth).logical_and(known.error <= 0.02 * distance);
  const at::Tensor fits_found = (products.found - known.slope).abs() <= 0.05 * distance;
  const at::Tensor is_wrong = can_tell.logical_and(fits_found.logical_not());
  points.finite = count(products.are_finite());
  points.apart = count(apart);
  points.wrong = count(is_wrong);
  points.wrong_tangents = count(can_tell) - points.wrong;
  if (count(can_tell) > 0) name_first(points, points.wrong > 0 ? is_wrong : can_tell, products, known);
  return points;
}

// Where the backward and the forward derivative agree with each other and not with central differences. A much smaller step, whose
// slopes `fine_slope` gives, has to find the same: it does see the sine of a large number.
void note_where_both_are_wrong(Points& points, const Products& products, const Slopes& known,
                               const std::function<at::Tensor()>& fine_slope, const Precision& precision) {
  const at::Tensor off = (products.found - known.slope).abs();
  const at::Tensor are_off = off > 1e-3 * (products.terms + known.slope.abs()) + products.rounding;
  at::Tensor rows = products.are_finite()
                        .logical_and(products.are_apart(precision).logical_not())
                        .logical_and(known.is_smooth)
                        .logical_and(are_off)
                        .logical_and(known.error <= 0.02 * off)
                        .logical_and(products.found.abs() * precision.step <= kMostChange);
  if (count(rows) == 0) return;
  rows = rows.logical_and((fine_slope() - known.slope).abs() <= 0.1 * off);
  points.both_wrong = count(rows);
  if (points.both_wrong > 0 && points.row < 0) name_first(points, rows, products, known);
}

// The input whose part of the two products is farthest apart.
std::string culprit(const Derivatives& derivatives, const Tensors& x, const Tensors& t, const Tensors& g,
                    const Tensors& gradients, int64_t row) {
  const Signature& signature = derivatives.f().signature();
  double most = 0;
  std::string name;
  for (size_t i = 0; i < x.size(); ++i) {
    Tensors alone;
    for (const at::Tensor& one : t) alone.push_back(at::zeros_like(one));
    alone[i] = t[i];
    const Tensors tangents = without_nan(derivatives.tangents(x, alone), g);
    const at::Tensor apart = (derivatives.dot(g, tangents) - derivatives.dot(gradients, alone)).abs();
    const double distance = apart[row].item<double>();
    if (!(distance > most)) continue;
    most = distance;
    name = signature.function.leaves[signature.differentiable[i]].path;
  }
  return name;
}

std::string share(const Points& points) {
  return c10::str(points.apart, " of ", points.finite, points.finite == 1 ? " product" : " products");
}

std::string remedy() {
  return "Put [ForceUnroll] before its loops, write a part of it as a function of its own, or give it a derivative by "
         "hand ([BackwardDerivative])";
}

// Whether so many points show that a derivative is wrong.
bool shows(int64_t points, const Derivatives& derivatives, const Precision& precision) {
  return points >= (derivatives.rows() == 0 ? 2 : precision.points);
}

// The call's own numbers may all be special, as zeros are: others are near them, or elsewhere.
Tensors numbers_at(Where where, const Tensors& given, Draws& draws) {
  switch (where) {
    case Where::Given: return given;
    case Where::Near: return moved(given, 0.05, draws.directions(given));
    case Where::Elsewhere: return draws.elsewhere(given);
  }
  return given;
}

// What draws of a point, of t and of g show.
class FirstOrder {
 public:
  FirstOrder(const Derivatives& derivatives, const Precision& precision)
      : given_derivatives_(derivatives), precision_(precision), given_(derivatives.inputs()) {}

  const Points& points() const { return all_; }
  const std::string& argument() const { return argument_; }  // whose gradient is wrong

  void draw(Where where, bool is_single) {
    if (where == Where::Elsewhere) return draw_elsewhere();
    compare_at(numbers_at(where, given_, draws_), given_derivatives_, is_single);
  }

  bool shows(int64_t points) const { return audit::shows(points, given_derivatives_, precision_); }
  // Sums over all of a kernel's elements may have kinks everywhere: its elements alone have few.
  bool wants_single_elements() const {
    return given_derivatives_.rows() == 0 && all_.apart > 0 && !shows(all_.wrong) && !shows(all_.wrong_tangents);
  }

 private:
  // An integer may be out of the function's range.
  void draw_elsewhere() {
    if (given_derivatives_.rows() == 0) return;
    const Derivatives others =
        given_derivatives_.with_integers([this](const at::Tensor& one) { return draws_.integers(one); });
    const Tensors x = numbers_at(Where::Elsewhere, given_, draws_);
    try {
      compare_at(x, others, false);
    } catch (const c10::Error& error) {
      log_debug("audit: ", error.what_without_backtrace());
    }
  }

  void compare_at(const Tensors& x, const Derivatives& derivatives, bool is_single) {
    const Tensors t = draws_.directions(x);
    const bool has_tangents = derivatives.has_tangents();
    const Tensors outputs = has_tangents ? derivatives.tangents(x, t) : derivatives.values(x);
    const Tensors g = gradients_for(outputs, draws_, is_single);
    const Tensors gradients = derivatives.gradients(x, g);
    const auto value = [&](double step) {
      return derivatives.dot(g, without_nan(derivatives.values(moved(x, step, t)), g));
    };
    const Slopes known = central_differences(value, precision_.step);
    Products products{known.slope, derivatives.dot(gradients, t), derivatives.size_of_dot(gradients, t)};
    if (has_tangents) {
      const Tensors tangents = without_nan(outputs, g);
      products.reference = derivatives.dot(g, tangents);
      products.terms = products.terms + derivatives.size_of_dot(g, tangents);
    } else {
      products.reference = at::where(known.is_smooth, known.slope, NAN);
      products.terms = products.terms + known.slope.abs() + known.error / precision_.agreement;
    }
    const auto fine_slope = [&] { return central_differences(value, precision_.fine_step).slope; };
    const auto judged = [&] {
      Points points = compare(products, known, precision_);
      note_where_both_are_wrong(points, products, known, fine_slope, precision_);
      return points;
    };
    Points points = judged();
    if (points.apart > 0 || points.both_wrong > 0) {
      products.rounding =
          rounding_of([&](double s) { return derivatives.dot(derivatives.gradients(x, scaled(g, s)), t); });
      if (has_tangents) {
        products.rounding += rounding_of(
            [&](double s) { return derivatives.dot(g, without_nan(derivatives.tangents(x, scaled(t, s)), g)); });
      }
      points = judged();
    }
    if (points.wrong > 0 && has_tangents && argument_.empty())
      argument_ = culprit(derivatives, x, t, g, gradients, points.row);
    all_.add(points);
  }

  const Derivatives& given_derivatives_;
  const Precision& precision_;
  const Tensors given_;
  Draws draws_;
  Points all_;
  std::string argument_;
};

std::string three_numbers(const char* first, double one, const char* second, double other, const Points& points) {
  return c10::str("along a random direction ", first, " gives ", one, ", ", second, " ", other,
                  ", central differences ", points.slope, " (", share(points), " differ). ", remedy());
}

Verdict verdict_of(const FirstOrder& comparison, bool has_tangents, bool has_constants) {
  const Points& all = comparison.points();
  if (all.finite == 0) {
    return {Outcome::NotAudited, "its derivatives are not finite at the arguments of the first call"};
  }
  if (!has_tangents && has_constants && comparison.shows(all.wrong)) {
    return {Outcome::Differs,
            c10::str("the backward gives ", all.found, " where central differences give ", all.slope, " (", share(all),
                     "); constants (no_diff, detach) may be the reason: there is "
                     "no forward derivative to compare with")};
  }
  if (!has_tangents && comparison.shows(all.wrong)) {
    return {Outcome::Wrong, c10::str("a gradient is wrong: along a random direction the backward gives ", all.found,
                                     ", central differences ", all.slope, " (", share(all), " differ). ", remedy())};
  }
  if (comparison.shows(all.wrong)) {
    return {Outcome::Wrong,
            c10::str("the gradient of ", comparison.argument(), " is wrong: ",
                     three_numbers("the backward", all.found, "the forward derivative", all.other, all))};
  }
  if (comparison.shows(all.wrong_tangents)) {
    return {Outcome::WrongTangents,
            "it is wrong: " + three_numbers("the forward derivative", all.other, "the backward", all.found, all)};
  }
  if (!has_constants && comparison.shows(all.both_wrong)) {
    return {Outcome::Wrong,
            c10::str("a gradient is wrong: along a random direction the backward and the forward "
                     "derivative both give ",
                     all.found, ", central differences ", all.slope,
                     ". A value has lost its derivative: where that is meant, write no_diff before it")};
  }
  const std::string what = has_tangents ? "the forward derivative" : "central differences";
  if (all.apart == all.finite) {
    return {Outcome::NotAudited,
            c10::str("the backward and ", what, " differ at all of ", all.finite,
                     " points, but the "
                     "function is not smooth there, or its numbers have too few digits to say more")};
  }
  if (all.apart == 0) return {Outcome::Agrees, "agrees with " + what};
  return {Outcome::Agrees,
          c10::str("agrees with ", what, " but for ", share(all), ", where the function is not smooth")};
}

}  // namespace

at::Tensor rounding_of(const std::function<at::Tensor(double)>& product) {
  const at::Tensor once = product(1);
  at::Tensor most = at::zeros_like(once);
  for (const double factor : {0.7, 1.1, 1.9}) most = at::maximum(most, (product(factor) / factor - once).abs());
  const at::Tensor bent = (product(2) / 2 - once).abs();
  return at::where(bent <= 0.1 * most, kRoundings * most, at::zeros_like(most)).nan_to_num(0, 0, 0);
}

Verdict compare_first(Derivatives& derivatives, const Precision& precision, bool has_constants) {
  FirstOrder comparison(derivatives, precision);
  for (const Where where : kDraws) comparison.draw(where, false);
  for (int draw = 0; draw < kSingleDraws && comparison.wants_single_elements(); ++draw)
    comparison.draw(draw % 2 == 0 ? Where::Given : Where::Near, true);
  return verdict_of(comparison, derivatives.has_tangents(), has_constants);
}

Verdict compare_second(Derivatives& derivatives, const Precision& precision, bool has_constants) {
  Draws draws;
  const Tensors given = derivatives.inputs();
  Points all;
  for (const Where where : kDraws) {
    const bool stays = where == Where::Elsewhere && derivatives.rows() == 0;
    const Tensors x = stays ? given : numbers_at(where, given, draws);
    const Tensors t = draws.directions(x), u = draws.directions(x);
    const Tensors g = gradients_for(derivatives.tangents(x, t), draws, false);
    const Tensors second = derivatives.second(x, t, g);
    const auto value = [&](double step) {
      return derivatives.dot(g, without_nan(derivatives.tangents(moved(x, step, u), t), g));
    };
    const Slopes slopes = central_differences(value, precision.step);
    // What central differences cannot tell is not compared.
    Products products{at::where(slopes.is_smooth, slopes.slope, NAN), derivatives.dot(second, u),
                      derivatives.size_of_dot(second, u) + slopes.slope.abs() + slopes.error / precision.agreement};
    Points points = compare(products, slopes, precision);
    if (points.apart > 0) {
      products.rounding =
          rounding_of([&](double s) { return derivatives.dot(derivatives.second(x, t, scaled(g, s)), u); });
      points = compare(products, slopes, precision);
    }
    all.add(points);
  }
  if (all.finite == 0) {
    return {Outcome::NotAudited,
            "its second derivatives are not finite, or not smooth, at the arguments of the first call"};
  }
  const bool is_wrong = shows(all.wrong, derivatives, precision);
  if (is_wrong && has_constants) {
    return {Outcome::Differs, c10::str("the second derivative gives ", all.found,
                                       " where central differences of the forward derivative give ", all.slope, " (",
                                       share(all), "); constants (no_diff, detach) may be the reason")};
  }
  if (is_wrong) {
    return {Outcome::Wrong, c10::str("the second derivative is wrong: along random directions it gives ", all.found,
                                     ", central differences of the forward derivative ", all.slope, " (", share(all),
                                     " differ). ", remedy())};
  }
  return {Outcome::Agrees, "agrees with differences of the forward derivative"};
}

}  // namespace torch_slang::audit
