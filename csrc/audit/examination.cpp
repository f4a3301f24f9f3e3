#include "audit/examination.h"

#include <algorithm>
#include <utility>

#include "audit/in_double.h"
#include "common/interrupts.h"
#include "program/intrinsics.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang::audit {
namespace {

// Why there is nothing to compare with.
struct Refusal {
  std::string reason;
};

class Examination {
 public:
  Examination(const Operator& f, const MakeOperator& make, Order order, std::vector<ElementType> types,
              std::vector<int64_t> sizes)
      : f_(f), make_(make), order_(order), types_(std::move(types)), sizes_(std::move(sizes)) {}

  Verdict run(const Problem& problem, bool is_double) {
    const std::shared_ptr<Operator> op = operator_in(is_double);
    if (order_ == Order::Second && op->jvp == nullptr) throw Refusal{no_tangents_};
    Derivatives derivatives(*op, problem.on_cpu(is_double));
    const Precision& precision = is_double ? kDouble : kSingle;
    const auto compare = order_ == Order::First ? compare_first : compare_second;
    Verdict verdict = compare(derivatives, precision, has_constants(is_double));
    if (verdict.outcome == Outcome::NotAudited && op->jvp == nullptr && !no_tangents_.empty()) {
      verdict.text += "; there is no forward derivative: " + no_tangents_;
    }
    return verdict;
  }

 private:
  // Conversions to fewer bits have the derivative 1.
  bool has_constants(bool is_double) const {
    const DeviceText& text = f_.signature().text(OpKind::Backward, types_in(is_double), sizes_);
    return text.constants || uses(text, {intrinsics::kHalf, intrinsics::kBFloat16});
  }

  // Types of the instantiation: float64 wherever the function allows it.
  std::vector<ElementType> types_in(bool is_double) const {
    std::vector<ElementType> types = types_;
    for (size_t k = 0; is_double && k < types.size(); ++k) {
      const auto& allowed = f_.signature().function.type_parameters[k].allowed;
      const bool may_be = std::find(allowed.begin(), allowed.end(), ElementType::Float64) != allowed.end();
      if (may_be && is_floating_point(types[k])) types[k] = ElementType::Float64;
    }
    return types;
  }

  // Of f's texts: as they are, or in words of float64.
  DeviceText text_of(const Operator& op, OpKind kind, bool is_double) const {
    DeviceText text = op.signature().text(kind, types_in(is_double), sizes_);
    if (!text.own_derivative.empty()) {
      throw Refusal{c10::str(text.own_derivative, " has a derivative by hand, which need not be the function's")};
    }
    if (multiplies(text)) throw Refusal{"its blocks multiply matrices"};
    if (is_double) text.body = in_double(text.body);
    return text;
  }

  // Differences of numbers of few digits say nothing.
  void check_digits(const Function& function, bool is_double) const {
    const std::vector<ElementType> types = types_in(is_double);
    for (const Leaf& leaf : function.leaves) {
      const int parameter = leaf.element.type_parameter;
      const ElementType type = parameter < 0 ? leaf.element.type : types[parameter];
      if (type == ElementType::BFloat16 || type == ElementType::Float16) {
        throw Refusal{c10::str(leaf.path, " has elements of ", name_of(type), ", whose digits are too few to compare")};
      }
    }
  }

  std::shared_ptr<Operator> operator_in(bool is_double) {
    Program program;
    Function function = is_double ? in_double(f_.signature().function) : f_.signature().function;
    if (!function.is_kernel()) {
      auto& given = function.plain().given_types;
      for (size_t k = 0; k < given.size(); ++k) {
        if (given[k]) given[k] = types_in(is_double)[k];
      }
    }
    check_digits(function, is_double);
    program.functions = {function};
    program.texts = {text_of(f_, OpKind::Backward, is_double), text_of(f_, OpKind::Forward, is_double)};
    const bool has_tangents = add_tangents(program, is_double);
    CompileRequest request;
    request.path = function.file;
    const auto texts = std::make_shared<TextSource>(request, std::make_shared<const Program>(std::move(program)));
    auto op = make_(std::move(function), texts);
    if (!has_tangents) op->jvp = nullptr;
    return op;
  }

  bool add_tangents(Program& program, bool is_double) {
    if (f_.jvp == nullptr) {
      no_tangents_ = sees_tensors(f_.signature().function) ? "the function sees tensors whole"
                                                           : "it is not marked [Differentiable] for forward mode";
      return false;
    }
    try {
      program.texts.push_back(text_of(*f_.jvp, OpKind::Forward, is_double));
    } catch (const CompileError& error) {
      const std::string message = error.what_without_backtrace();
      no_tangents_ = message.substr(0, message.find('\n'));
      return false;
    }
    if (order_ == Order::Second) program.texts.push_back(text_of(*f_.jvp, OpKind::Backward, is_double));
    return true;
  }

  const Operator& f_;
  const MakeOperator& make_;
  const Order order_;
  const std::vector<ElementType> types_;
  const std::vector<int64_t> sizes_;
  std::string no_tangents_;  // why there is no forward derivative
};

}  // namespace

Verdict examine(const Operator& f, const MakeOperator& make, Order order, const std::vector<ElementType>& types,
                const std::vector<int64_t>& sizes, const Problem& problem) {
  Examination examination(f, make, order, types, sizes);
  std::string failure;
  for (const bool is_double : {true, false}) {
    try {
      return examination.run(problem, is_double);
    } catch (const Refusal& refusal) {
      return {Outcome::NotAudited, refusal.reason};
    } catch (const Interrupted&) {
      throw;
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  return {Outcome::NotAudited, "its run for the audit failed: " + failure.substr(0, failure.find('\n'))};
}

}  // namespace torch_slang::audit
