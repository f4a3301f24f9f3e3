#include "compiler/wrap/elementwise_wrapper.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <functional>

#include "compiler/wrap/wrapper_text.h"
#include "program/enumerations.h"

namespace torch_slang {
namespace {

// Note [derivatives of functions]
//   What Slang's derivatives of f take for each parameter of f, in order:
//                            bwd_diff(f)                                       fwd_diff(f)
//     in                     inout DifferentialPair; .d becomes the gradient   DifferentialPair
//     out                    in: the differential that is given                out DifferentialPair
//     inout                  inout DifferentialPair; .d is given, and taken    inout DifferentialPair
//     in, without            in: the value                                     the same
//     out, without           nothing                                           the same
//     inout, without         in: the value                                     the same
//   "without": no_diff, or of a type without a derivative. Behind them bwd_diff takes the differential of the returned
//   value, if that has one; fwd_diff returns a DifferentialPair. A struct's Differential has those of its fields that
//   have a derivative, under their names.
class ElementwiseWriter {
 public:
  ElementwiseWriter(const DescribedFunction& described, const Instantiation& instantiation)
      : function_(described.function),
        call_(described.call),
        is_called_by_name_(described.call.owner.empty() && !described.shares_name),
        instantiation_(instantiation),
        text_(described.function, instantiation) {}

  std::string write() {
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      text_.line(text_.concrete(call_.parameters[i].type), " ", variable(i), ";");
      if (call_.parameters[i].input >= 0) fetch_primals(function_.parameters[call_.parameters[i].input], variable(i));
    }
    switch (instantiation_.direction) {
      case Direction::Forward: call_forward(); break;
      case Direction::Backward: call_backward(); break;
      case Direction::Jvp: call_forward_derivative(); break;
    }
    return forwarder() + text_.entry_point();
  }

 private:
  static std::string variable(size_t index) { return c10::str("tsl_p", index); }
  static std::string pair(size_t index) { return c10::str("tsl_d", index); }
  static std::string differential(size_t index) { return c10::str("tsl_g", index); }

  std::string forwarder_name() const { return entry_name(instantiation_) + "_forwarder"; }

  std::string generic_arguments() const {
    std::string list;
    for (const std::string& name : call_.generic_arguments) list += (list.empty() ? "" : ", ") + text_.concrete(name);
    return list.empty() ? "" : "<" + list + ">";
  }

  std::string callee() const { return is_called_by_name_ ? call_.name + generic_arguments() : forwarder_name(); }

  // Slang differentiates by its name no method, and no function whose name others have. So this stands for them: a method as a
  // function of `this`.
  std::string forwarder() const {
    if (is_called_by_name_) return {};
    const bool is_method = !call_.owner.empty() && !call_.is_static;
    std::string head, list;
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      const char* way = value.passing == Passing::Out ? "out " : value.passing == Passing::InOut ? "inout " : "";
      head += c10::str(i == 0 ? "" : ", ", value.paired ? "" : "no_diff ", way, text_.concrete(value.type), " ",
                       variable(i));
      if (!is_method || i > 0) list += (list.empty() ? "" : ", ") + variable(i);
    }
    const std::string place = call_.owner.empty() ? "" : (is_method ? variable(0) : text_.concrete(call_.owner)) + ".";
    const char* attribute = function_.has_backward             ? "[Differentiable] "
                            : function_.has_forward_derivative ? "[ForwardDifferentiable] "
                                                               : "";
    const bool is_void = call_.returned.result < 0;
    return c10::str(attribute, text_.concrete(call_.returned.type), " ", forwarder_name(), "(", head, ")\n{\n    ",
                    is_void ? "" : "return ", place, call_.name, generic_arguments(), "(", list, ");\n}\n");
  }

  // `use(leaf, place)` for each leaf of a tree, with its place in the value `place`.
  void each_leaf(const Parameter& tree, const std::string& place,
                 const std::function<void(const Leaf&, const std::string&)>& use) const {
    if (tree.leaf >= 0) return use(function_.leaves[tree.leaf], place);
    for (const Parameter& field : tree.fields) each_leaf(field, member(place, field), use);
  }

  void fetch(const Leaf& leaf, int view, const std::string& place) {
    const std::string type = text_.component_type_name(leaf);
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return c10::str(place, index, " = __tsl_input<", type, ">(", view, ", ", component, ");");
    });
  }

  void give(const Leaf& leaf, int view, const std::string& place) {
    const std::string type = text_.component_type_name(leaf);
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return c10::str("__tsl_output<", type, ">(", view, ", ", component, ", ", place, index, ");");
    });
  }

  void fetch_primals(const Parameter& tree, const std::string& place) {
    each_leaf(tree, place, [&](const Leaf& leaf, const std::string& here) { fetch(leaf, leaf.primal_view, here); });
  }
  void give_primals(const Parameter& tree, const std::string& place) {
    each_leaf(tree, place, [&](const Leaf& leaf, const std::string& here) { give(leaf, leaf.primal_view, here); });
  }
  void fetch_differentials(const Parameter& tree, const std::string& place) {
    each_leaf(tree, place, [&](const Leaf& leaf, const std::string& here) {
      if (leaf.diff_view >= 0) fetch(leaf, leaf.diff_view, here);
    });
  }
  void give_differentials(const Parameter& tree, const std::string& place) {
    each_leaf(tree, place, [&](const Leaf& leaf, const std::string& here) {
      if (leaf.diff_view >= 0) give(leaf, leaf.diff_view, here);
    });
  }

  const Parameter& input(const PassedValue& value) const { return function_.parameters[value.input]; }
  const Parameter& result(const PassedValue& value) const { return function_.results[value.result]; }

  void call_forward() {
    std::string list;
    for (size_t i = 0; i < call_.parameters.size(); ++i) list += (i == 0 ? "" : ", ") + variable(i);
    const bool is_void = call_.returned.result < 0;
    text_.line(is_void ? "" : text_.concrete(call_.returned.type) + " tsl_r = ", callee(), "(", list, ");");
    if (!is_void) give_primals(result(call_.returned), "tsl_r");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      if (call_.parameters[i].result >= 0) give_primals(result(call_.parameters[i]), variable(i));
    }
  }

  // A variable with the differential of something that comes out, as given.
  void take_differential(const PassedValue& value, const std::string& name) {
    text_.line("var ", name, " = __tsl_zero<", text_.concrete(value.type), ">();");
    fetch_differentials(result(value), name);
  }

  void call_backward() {
    std::string list;
    const auto pass = [&](const std::string& argument) { list += (list.empty() ? "" : ", ") + argument; };
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (value.passing != Passing::In && value.paired) take_differential(value, differential(i));
      if (!value.paired) {
        if (value.passing != Passing::Out) pass(variable(i));
      } else if (value.passing == Passing::Out) {
        pass(differential(i));
      } else {
        const bool given = value.passing == Passing::InOut;
        text_.line(
            "var ", pair(i), " = ",
            given ? "diffPair(" + variable(i) + ", " + differential(i) + ");" : "__tsl_pair(" + variable(i) + ");");
        pass(pair(i));
      }
    }
    if (call_.returned.paired) {
      take_differential(call_.returned, "tsl_g");
      pass("tsl_g");
    }
    text_.line("bwd_diff(", callee(), ")(", list, ");");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (value.paired && value.input >= 0) give_differentials(input(value), pair(i) + ".d");
    }
  }

  void call_forward_derivative() {
    std::string list;
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      list += (i == 0 ? "" : ", ") + (value.paired ? pair(i) : variable(i));
      if (!value.paired) continue;
      text_.line("var ", pair(i), " = __tsl_pair(", variable(i), ");");
      if (value.input < 0) continue;
      text_.line("var ", differential(i), " = ", pair(i), ".d;");
      fetch_differentials(input(value), differential(i));
      text_.line(pair(i), " = diffPair(", variable(i), ", ", differential(i), ");");
    }
    text_.line(call_.returned.paired ? "var tsl_r = " : "", "fwd_diff(", callee(), ")(", list, ");");
    if (call_.returned.paired) give_differentials(result(call_.returned), "tsl_r.d");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (value.paired && value.result >= 0) give_differentials(result(value), pair(i) + ".d");
    }
  }

  const Function& function_;
  const ElementwiseCall& call_;
  const bool is_called_by_name_;
  const Instantiation& instantiation_;
  WrapperText text_;
};

}  // namespace

std::string elementwise_wrapper(const DescribedFunction& function, const Instantiation& instantiation) {
  return ElementwiseWriter(function, instantiation).write();
}

}  // namespace torch_slang
