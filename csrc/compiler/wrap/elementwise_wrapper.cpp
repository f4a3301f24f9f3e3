#include "compiler/wrap/elementwise_wrapper.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "compiler/source/generic_tensors.h"
#include "compiler/wrap/wrapper_text.h"
#include "program/enumerations.h"
#include "program/tangents.h"

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
//
// Note [values of the function]
//   The text of f_jvp has f's results too, for loops that take them (Note [dual calls] in dispatch/dual_call.h). They come from a
//   call of f, not from what fwd_diff gives beside the tangents: a [ForwardDerivative] that somebody wrote may compute them
//   otherwise.
//
// Note [second derivatives of functions]
//   Slang has no derivative of fwd_diff(f) itself, nor of one with `out` or `inout` pairs, but it has one of a function that
//   returns what fwd_diff gives. So all that comes out of f becomes one struct.
class ElementwiseWriter {
 public:
  ElementwiseWriter(const DescribedFunction& described, const Instantiation& instantiation)
      : function_(described.function),
        call_(described.call),
        is_called_by_name_(described.call.owner.empty() && !described.shares_name &&
                           !takes_interface(described.function)),
        instantiation_(instantiation),
        text_(described.function, instantiation) {
    find_leaves();
  }

  std::string write() {
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      text_.line(text_.concrete(call_.parameters[i].type), " ", variable(i), ";");
      if (call_.parameters[i].input >= 0) fetch_primals(function_.parameters[call_.parameters[i].input], variable(i));
    }
    switch (instantiation_.direction) {
      case Direction::Forward: call_forward(); break;
      case Direction::Backward: call_backward(); break;
      case Direction::Jvp: call_forward_derivative(); break;
      case Direction::Tangents:
        give_values();
        text_.line("if (__tsl_gives_tangents())\n    {");
        call_forward_derivative();
        text_.line("}");
        break;
      case Direction::TangentsBackward: call_second_derivative(); break;
    }
    return forwarder() + (instantiation_.direction == Direction::TangentsBackward ? tangents_text() : "") +
           text_.entry_point();
  }

 private:
  static std::string variable(size_t index) { return c10::str("tsl_p", index); }
  static std::string pair(size_t index) { return c10::str("tsl_d", index); }
  static std::string differential(size_t index) { return c10::str("tsl_g", index); }

  // Note [generic tensors] in source/generic_tensors.h: Slang differentiates no function by its name that the text makes generic.
  static bool takes_interface(const Function& function) {
    return std::any_of(function.parameters.begin(), function.parameters.end(), [](const Parameter& parameter) {
      return is_differentiable_tensor_interface(parameter.slang_type);
    });
  }

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
      const char* modifier = value.passing == Passing::Out ? "out " : value.passing == Passing::InOut ? "inout " : "";
      head += c10::str(i == 0 ? "" : ", ", value.paired ? "" : "no_diff ", modifier, text_.concrete(value.type), " ",
                       variable(i));
      if (!is_method || i > 0) list += (list.empty() ? "" : ", ") + variable(i);
    }
    const std::string owner = call_.owner.empty() ? "" : (is_method ? variable(0) : text_.concrete(call_.owner)) + ".";
    const char* attribute = function_.has_backward             ? "[Differentiable] "
                            : function_.has_forward_derivative ? "[ForwardDifferentiable] "
                                                               : "";
    const bool is_void = call_.returned.result < 0;
    return c10::str(attribute, text_.concrete(call_.returned.type), " ", forwarder_name(), "(", head, ")\n{\n    ",
                    is_void ? "" : "return ", owner, call_.name, generic_arguments(), "(", list, ");\n}\n");
  }

  // Where the values of the function's leaves, and their tangents, are in the argument block: the function's own leaves, or
  // those of what program/tangents.h makes of it.
  void find_leaves() {
    const bool has_tangents =
        instantiation_.direction == Direction::Tangents || instantiation_.direction == Direction::TangentsBackward;
    const bool has_values = instantiation_.direction == Direction::Tangents;
    if (has_tangents) {
      made_ = has_values ? dual_function(function_, function_.name) : tangents_function(function_, function_.name);
    }
    TORCH_CHECK(!has_tangents || made_, "torch-slangc: ", function_.name, " has no forward derivative");
    for (const Leaf& leaf : function_.leaves) values_.push_back(&leaf);
    tangents_.resize(values_.size());
    if (!made_) return;
    for (const Leaf& leaf : made_->leaves) (leaf.is_tangent ? tangents_ : values_)[leaf.origin] = &leaf;
  }

  // `use(leaf, its lvalue)` for each leaf of a tree, whose own is `lvalue`.
  void each_leaf(const Parameter& tree, const std::string& lvalue,
                 const std::function<void(const Leaf&, const std::string&)>& use) const {
    if (tree.leaf >= 0) return use(*values_[tree.leaf], lvalue);
    for (const Parameter& field : tree.fields) each_leaf(field, member(lvalue, field), use);
  }
  // The same for leaves that have a tangent, with the tangent's leaf.
  void each_tangent(const Parameter& tree, const std::string& lvalue,
                    const std::function<void(const Leaf&, const std::string&)>& use) const {
    if (tree.leaf < 0) {
      for (const Parameter& field : tree.fields) each_tangent(field, member(lvalue, field), use);
    } else if (tangents_[tree.leaf] != nullptr) {
      use(*tangents_[tree.leaf], lvalue);
    }
  }
  void fetch_tangents(const Parameter& tree, const std::string& lvalue) {
    if (!made_) return fetch_differentials(tree, lvalue);
    each_tangent(tree, lvalue,
                 [&](const Leaf& leaf, const std::string& here) { fetch(leaf, leaf.place().primal_view, here); });
  }
  void give_tangents(const Parameter& tree, const std::string& lvalue) {
    if (!made_) return give_differentials(tree, lvalue);
    each_tangent(tree, lvalue,
                 [&](const Leaf& leaf, const std::string& here) { give(leaf, leaf.place().primal_view, here); });
  }

  void fetch(const Leaf& leaf, int view, const std::string& lvalue, const char* from = "__tsl_input") {
    const std::string type = text_.component_type_name(leaf);
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return c10::str(lvalue, index, " = ", from, "<", type, ">(", view, ", ", component, ");");
    });
  }

  void give(const Leaf& leaf, int view, const std::string& lvalue) {
    const std::string type = text_.component_type_name(leaf);
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return c10::str("__tsl_output<", type, ">(", view, ", ", component, ", ", lvalue, index, ");");
    });
  }

  // A view, whose gradient goes with it: bwd_diff takes it as it is.
  void bind(const Leaf& leaf, const std::string& lvalue) {
    if (leaf.view().rank) {  // a method of slang/slangpy.slang's
      text_.line(lvalue, ".__bind(", leaf.place().primal_view,
                 leaf.diff_view() ? c10::str(", ", *leaf.diff_view()) : "", ");");
    } else if (!leaf.diff_view()) {
      text_.line("__tsl_bind(", lvalue, ", ", leaf.place().primal_view, ");");
    } else {
      text_.line("__tsl_bind(", lvalue, ".primal, ", leaf.place().primal_view, ");");
      text_.line("__tsl_bind(", lvalue, ".diff.diff, ", *leaf.diff_view(), ");");
    }
  }

  void fetch_primals(const Parameter& tree, const std::string& lvalue) {
    each_leaf(tree, lvalue, [&](const Leaf& leaf, const std::string& here) {
      leaf.is_whole() ? bind(leaf, here) : fetch(leaf, leaf.place().primal_view, here);
    });
  }
  void give_primals(const Parameter& tree, const std::string& lvalue) {
    each_leaf(tree, lvalue,
              [&](const Leaf& leaf, const std::string& here) { give(leaf, leaf.place().primal_view, here); });
  }
  void fetch_differentials(const Parameter& tree, const std::string& lvalue) {
    each_leaf(tree, lvalue, [&](const Leaf& leaf, const std::string& here) {
      if (leaf.diff_view() && !leaf.is_whole()) fetch(leaf, *leaf.diff_view(), here);
    });
  }
  void give_differentials(const Parameter& tree, const std::string& lvalue) {
    each_leaf(tree, lvalue, [&](const Leaf& leaf, const std::string& here) {
      if (leaf.diff_view() && !leaf.is_whole()) give(leaf, *leaf.diff_view(), here);
    });
  }

  const Parameter& input(const PassedValue& value) const { return function_.parameters[value.input]; }
  const Parameter& result(const PassedValue& value) const { return function_.plain().results[value.result]; }

  void call_forward() { call_function(variable, "tsl_r"); }

  // `lvalue(i)`: where the function's parameter i is.
  void call_function(const std::function<std::string(size_t)>& lvalue, const std::string& returned) {
    std::string list;
    for (size_t i = 0; i < call_.parameters.size(); ++i) list += (i == 0 ? "" : ", ") + lvalue(i);
    const bool is_void = call_.returned.result < 0;
    text_.line(is_void ? "" : text_.concrete(call_.returned.type) + " " + returned + " = ", callee(), "(", list, ");");
    if (!is_void) give_primals(result(call_.returned), returned);
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      if (call_.parameters[i].result >= 0) give_primals(result(call_.parameters[i]), lvalue(i));
    }
  }

  // Note [values of the function]
  void give_values() {
    const auto lvalue = [](size_t i) { return c10::str("tsl_v", i); };
    text_.line("if (__tsl_gives_values())\n    {");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      text_.line(text_.concrete(value.type), " ", lvalue(i), ";");
      if (value.input < 0) continue;
      each_leaf(input(value), lvalue(i), [&](const Leaf& leaf, const std::string& here) {
        fetch(leaf, leaf.place().primal_view, here, "__tsl_input_apart");
      });
    }
    call_function(lvalue, "tsl_y");
    text_.line("}");
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
    text_.finish_records();
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
      fetch_tangents(input(value), differential(i));
      text_.line(pair(i), " = diffPair(", variable(i), ", ", differential(i), ");");
    }
    text_.line(call_.returned.paired ? "var tsl_r = " : "", "fwd_diff(", callee(), ")(", list, ");");
    if (call_.returned.paired) give_tangents(result(call_.returned), "tsl_r.d");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (value.paired && value.result >= 0) give_tangents(result(value), pair(i) + ".d");
    }
  }

  // `use(value, name of its field among all results)` for what comes out and has a derivative.
  void each_paired_result(const std::function<void(const PassedValue&, const std::string&)>& use) const {
    if (call_.returned.paired) use(call_.returned, "tsl_r");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (value.paired && value.result >= 0) use(value, variable(i));
    }
  }
  bool is_taken(const PassedValue& value) const { return value.passing != Passing::Out; }

  std::string results_type() const { return entry_name(instantiation_) + "_results"; }

  // The parameters that go in; `type_of(value)` of those with a derivative.
  std::string inputs_head(const std::function<std::string(const std::string&)>& type_of) const {
    std::string head;
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (!is_taken(value)) continue;
      const std::string type = text_.concrete(value.type);
      head += (head.empty() ? "" : ", ") + (value.paired ? type_of(type) : "no_diff " + type) + " " + variable(i);
    }
    return head;
  }
  std::string inputs_list(const std::function<std::string(size_t)>& of_paired) const {
    std::string list;
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (is_taken(value)) list += (list.empty() ? "" : ", ") + (value.paired ? of_paired(i) : variable(i));
    }
    return list;
  }

  // Note [second derivatives of functions]
  std::string tangents_text() const {
    const std::string name = entry_name(instantiation_);
    std::string fields, body, list, results;
    each_paired_result([&](const PassedValue& value, const std::string& field) {
      fields += c10::str("    ", text_.concrete(value.type), " ", field, ";\n");
    });
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      const std::string local = value.passing == Passing::In ? variable(i) : c10::str("tsl_o", i);
      list += (i == 0 ? "" : ", ") + local;
      if (value.passing == Passing::In) continue;
      body +=
          c10::str("    ", text_.concrete(value.type), " ", local, is_taken(value) ? " = " + variable(i) : "", ";\n");
      if (value.paired && value.result >= 0) results += c10::str("    tsl_all.", variable(i), " = ", local, ";\n");
    }
    const std::string call = c10::str(callee(), "(", list, ");\n");
    body += c10::str("    ", results_type(), " tsl_all;\n    ", call_.returned.paired ? "tsl_all.tsl_r = " : "", call);
    const auto same = [](const std::string& type) { return type; };
    const auto paired = [](const std::string& type) { return "DifferentialPair<" + type + ">"; };
    return c10::str("struct ", results_type(), " : IDifferentiable\n{\n", fields, "}\n[Differentiable] ",
                    results_type(), " ", name, "_values(", inputs_head(same), ")\n{\n", body, results,
                    "    return tsl_all;\n}\n[Differentiable] ", paired(results_type()), " ", name, "_tangents(",
                    inputs_head(paired), ")\n{\n    return fwd_diff(", name, "_values)(", inputs_list(variable),
                    ");\n}\n");
  }

  // The tangents as well, where the loop takes them: Note [double backward in one loop] in functions/call.h.
  void give_tangents_too() {
    std::string taken;
    each_paired_result([&](const PassedValue& value, const std::string& field) {
      each_tangent(result(value), field, [&](const Leaf& leaf, const std::string&) {
        taken += c10::str(taken.empty() ? "" : " || ", "__tsl_takes(", leaf.place().primal_view, ")");
      });
    });
    text_.line("if (", taken, ")\n    {");
    text_.line("let tsl_t = ", entry_name(instantiation_), "_tangents(", inputs_list(pair), ").d;");
    each_paired_result([&](const PassedValue& value, const std::string& field) {
      each_tangent(result(value), "tsl_t." + field,
                   [&](const Leaf& leaf, const std::string& here) { give(leaf, leaf.place().primal_view, here); });
    });
    text_.line("}");
  }

  void call_second_derivative() {
    const auto whole = [](size_t i) { return c10::str("tsl_w", i); };
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (!value.paired || !is_taken(value)) continue;
      const std::string type = text_.concrete(value.type);
      text_.line("var ", differential(i), " = __tsl_zero<", type, ">();");
      fetch_tangents(input(value), differential(i));
      text_.line("DifferentialPair<", type, "> ", pair(i), " = diffPair(", variable(i), ", ", differential(i), ");");
      text_.line("var ", whole(i), " = __tsl_pair(", pair(i), ");");
    }
    give_tangents_too();
    text_.line("var tsl_g = __tsl_zero<", results_type(), ">();");
    each_paired_result([&](const PassedValue& value, const std::string& field) {
      each_tangent(result(value), "tsl_g." + field,
                   [&](const Leaf& leaf, const std::string& here) { fetch(leaf, *leaf.diff_view(), here); });
    });
    text_.line("bwd_diff(", entry_name(instantiation_), "_tangents)(", inputs_list(whole), ", diffPair(__tsl_zero<",
               results_type(), ">(), tsl_g));");
    for (size_t i = 0; i < call_.parameters.size(); ++i) {
      const PassedValue& value = call_.parameters[i];
      if (!value.paired || !is_taken(value)) continue;
      give_differentials(input(value), whole(i) + ".d.p");
      each_tangent(input(value), whole(i) + ".d.d",
                   [&](const Leaf& leaf, const std::string& here) { give(leaf, *leaf.diff_view(), here); });
    }
  }

  const Function& function_;
  const ElementwiseCall& call_;
  const bool is_called_by_name_;
  const Instantiation& instantiation_;
  std::optional<Function> made_;  // where there are tangents
  std::vector<const Leaf*> values_, tangents_;  // by leaf of the function
  WrapperText text_;
};

}  // namespace

std::string elementwise_wrapper(const DescribedFunction& function, const Instantiation& instantiation) {
  return ElementwiseWriter(function, instantiation).write();
}

}  // namespace torch_slang
