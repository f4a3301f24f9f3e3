#include "compiler/wrap/wrapper.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include "compiler/wrap/elementwise_wrapper.h"
#include "compiler/wrap/kernel_tangents_wrapper.h"
#include "compiler/wrap/wrapper_text.h"
#include "program/enumerations.h"

namespace torch_slang {
namespace {

class KernelWriter {
 public:
  KernelWriter(const DescribedFunction& kernel, const Instantiation& instantiation)
      : kernel_(kernel),
        function_(kernel.function),
        instantiation_(instantiation),
        text_(kernel.function, instantiation) {}

  std::string write() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      line(text_.concrete(function_.parameters[i].slang_type), " ", variable(i), ";");
      fetch(function_.parameters[i], variable(i));
    }
    switch (instantiation_.direction) {
      case Direction::Forward:
        line(callee(), "(", arguments(false), ");");
        text_.finish_records();  // of a launch that is given gradients, which the kernel adds to by itself
        break;
      case Direction::Backward: call_backward(); break;
      case Direction::Jvp: call_forward_derivative(); break;
      case Direction::Tangents:
      case Direction::TangentsBackward: break;  // kernel_tangents_wrapper.h
    }
    return forwarder() + text_.entry_point();
  }

 private:
  static std::string variable(size_t index) { return c10::str("tsl_p", index); }
  static std::string pair(size_t index) { return c10::str("tsl_d", index); }
  static std::string tangent(size_t index) { return c10::str("tsl_t", index); }

  template <class... Parts>
  void line(const Parts&... parts) {
    text_.line(parts...);
  }

  // The differentiated function: the kernel, or a stand-in where other functions have its name, by which Slang then finds no
  // derivative.
  std::string differentiated() const {
    return kernel_.shares_name ? entry_name(instantiation_) + "_forwarder" : callee();
  }
  std::string forwarder() const {
    if (!kernel_.shares_name || instantiation_.direction == Direction::Forward) return {};
    std::string head;
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      head += c10::str(i == 0 ? "" : ", ", kernel_.paired[i] ? "" : "no_diff ",
                       text_.concrete(function_.parameters[i].slang_type), " ", variable(i));
    }
    return c10::str("[Differentiable] void ", differentiated(), "(", head, ") { ", callee(), "(", arguments(false),
                    "); }\n");
  }

  std::string callee() const {
    std::string name = function_.qualified_name;
    std::string list;
    for (const ElementType type : instantiation_.types)
      list += (list.empty() ? "" : ", ") + std::string(slang_name_of(type));
    return list.empty() ? name : name + "<" + list + ">";
  }

  std::string arguments(bool derivative) const {
    std::string list;
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      list += (i == 0 ? "" : ", ") + (derivative && kernel_.paired[i] ? pair(i) : variable(i));
    }
    return list;
  }

  void fetch(const Parameter& parameter, const std::string& lvalue) {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) fetch(field, member(lvalue, field));
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.is_value()) return fetch_value(leaf, lvalue);
    if (!leaf.diff_view()) {
      line("__tsl_bind(", lvalue, ", ", leaf.place().primal_view, ");");
    } else {
      line("__tsl_bind(", lvalue, ".primal, ", leaf.place().primal_view, ");");
      line("__tsl_bind(", lvalue, ".diff.diff, ", *leaf.diff_view(), ");");
    }
  }

  void fetch_value(const Leaf& leaf, const std::string& lvalue) {
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return text_.value(leaf, lvalue + index, component);
    });
  }

  void call_backward() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (kernel_.paired[i]) line("var ", pair(i), " = __tsl_pair(", variable(i), ");");
    }
    line("bwd_diff(", differentiated(), ")(", arguments(true), ");");
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (kernel_.paired[i]) give_gradients(function_.parameters[i], pair(i) + ".d");
    }
    text_.finish_records();
  }

  // Paired values take their tangents along; those of views are in the views.
  void call_forward_derivative() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (!kernel_.paired[i]) continue;
      line("var ", pair(i), " = __tsl_pair(", variable(i), ");");
      line("var ", tangent(i), " = ", pair(i), ".d;");
      take_tangents(function_.parameters[i], tangent(i));
      line(pair(i), " = diffPair(", variable(i), ", ", tangent(i), ");");
    }
    line("fwd_diff(", differentiated(), ")(", arguments(true), ");");
  }

  void take_tangents(const Parameter& parameter, const std::string& lvalue) {
    each_differentiable_value(parameter, lvalue,
                              [&](const Leaf& leaf, const std::string& type, const std::string& here) {
                                text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
                                  return c10::str(here, index, " = __tsl_tangent<", type, ">(",
                                                  *leaf.value().gradient_slot, ", ", component, ");");
                                });
                              });
  }

  void give_gradients(const Parameter& parameter, const std::string& lvalue) {
    each_differentiable_value(parameter, lvalue,
                              [&](const Leaf& leaf, const std::string& type, const std::string& here) {
                                text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
                                  return c10::str("__tsl_gradient<", type, ">(", *leaf.value().gradient_slot, ", ",
                                                  component, ", ", here, index, ");");
                                });
                              });
  }

  // `use(leaf, its scalar type, its lvalue in the parameter's differential)`
  template <class Use>
  void each_differentiable_value(const Parameter& parameter, const std::string& lvalue, const Use& use) {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) each_differentiable_value(field, member(lvalue, field), use);
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.is_value() && leaf.differentiable) use(leaf, text_.component_type_name(leaf), lvalue);
  }

  const DescribedFunction& kernel_;
  const Function& function_;
  const Instantiation& instantiation_;
  WrapperText text_;
};

}  // namespace

std::string wrapper_source(const DescribedFunction& described, const Instantiation& instantiation) {
  const Function& function = described.function;
  const auto check = [&](size_t given, size_t expected, const char* what) {
    TORCH_CHECK(given == expected, "torch-slangc: ", function.name, " has ", expected, " ", what, " parameters, but ",
                given, " ", what, "s were given");
  };
  check(instantiation.types.size(), function.type_parameters.size(), "type");
  check(instantiation.sizes.size(), function.size_count(), "size");
  for (const int64_t size : instantiation.sizes) {
    TORCH_CHECK(size > 0, "torch-slangc: ", function.name, " was asked for with the size ", size);
  }
  if (!function.is_kernel()) return elementwise_wrapper(described, instantiation);
  if (instantiation.direction == Direction::Tangents || instantiation.direction == Direction::TangentsBackward)
    return kernel_tangents_wrapper(described, instantiation);
  return KernelWriter(described, instantiation).write();
}

}  // namespace torch_slang
