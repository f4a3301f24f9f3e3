#include "compiler/wrapper.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <cctype>

#include "compiler/tokens.h"
#include "program/names.h"

namespace torch_slang {
namespace {

constexpr int64_t kMaxUnrolled = 64;

class WrapperWriter {
 public:
  WrapperWriter(const DescribedFunction& kernel, const Instantiation& instantiation)
      : kernel_(kernel), function_(kernel.function), instantiation_(instantiation) {}

  std::string write() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      line(concrete(function_.parameters[i].slang_type), " ", variable(i), ";");
      fetch(function_.parameters[i], variable(i));
    }
    switch (instantiation_.direction) {
      case Direction::Forward: line(callee(), "(", arguments(false), ");"); break;
      case Direction::Backward: call_backward(); break;
      case Direction::Jvp: call_forward_derivative(); break;
    }
    return c10::str("[shader(\"compute\")] [numthreads(1, 1, 1)] void ", entry_name(instantiation_), "()\n{\n", text_,
                    "}\n");
  }

 private:
  static std::string variable(size_t index) { return c10::str("tsl_p", index); }
  static std::string pair(size_t index) { return c10::str("tsl_d", index); }
  static std::string tangent(size_t index) { return c10::str("tsl_t", index); }

  // A field of a struct, or an element of an array, whose name is its index.
  static std::string member(const std::string& place, const Parameter& field) {
    const bool is_index = std::isdigit(static_cast<unsigned char>(field.name[0])) != 0;
    return is_index ? place + "[" + field.name + "]" : place + "." + field.name;
  }

  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += c10::str("    ", parts..., "\n");
  }

  // A type as the descriptor names it, with the type arguments in place of the type parameters.
  std::string concrete(std::string type) const {
    for (size_t i = 0; i < function_.type_parameters.size(); ++i) {
      type = replace_identifier(type, function_.type_parameters[i].name, slang_name_of(instantiation_.types[i]));
    }
    return type;
  }

  ElementType component_type(const Element& element) const {
    return element.type_parameter >= 0 ? instantiation_.types[element.type_parameter] : element.type;
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

  void fetch(const Parameter& parameter, const std::string& place) {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) fetch(field, member(place, field));
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.kind == LeafKind::Value) return fetch_value(leaf, place);
    if (leaf.diff_view < 0) {
      line("__tsl_bind(", place, ", ", leaf.primal_view, ");");
    } else {
      line("__tsl_bind(", place, ".primal, ", leaf.primal_view, ");");
      line("__tsl_bind(", place, ".diff.diff, ", leaf.diff_view, ");");
    }
  }

  void fetch_value(const Leaf& leaf, const std::string& place) {
    const std::string type = slang_name_of(component_type(leaf.element));
    each_component(leaf.element, [&](const std::string& index, const std::string& component) {
      if (leaf.differentiable) {
        return c10::str(place, index, " = __tsl_value<", type, ">(", leaf.slot, ", ", leaf.pointer_slot, ", ",
                        component, ");");
      }
      return c10::str(place, index, " = __tsl_slot<", type, ">(", leaf.slot, " + ", component, ");");
    });
  }

  // One statement for each component, in row-major order: `write(index, component)` gets "[i0][i1]" and "i0 * 3 + i1".
  template <class Write>
  void each_component(const Element& element, const Write& write) {
    std::string loops, index, component = "0";
    int64_t count = 1;
    for (const int64_t size : element.shape) count *= size;
    for (size_t i = 0; i < element.shape.size(); ++i) {
      const std::string name = c10::str("i", i);
      loops += c10::str(count <= kMaxUnrolled ? "[ForceUnroll] " : "", "for (int ", name, " = 0; ", name, " < ",
                        element.shape[i], "; ++", name, ") ");
      index += "[" + name + "]";
      component = i == 0 ? name : c10::str("(", component, ") * ", element.shape[i], " + ", name);
    }
    line(loops, write(index, component));
  }

  void call_backward() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (kernel_.paired[i]) line("var ", pair(i), " = __tsl_pair(", variable(i), ");");
    }
    line("bwd_diff(", callee(), ")(", arguments(true), ");");
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (kernel_.paired[i]) give_gradients(function_.parameters[i], pair(i) + ".d");
    }
    finish_records();
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
    line("fwd_diff(", callee(), ")(", arguments(true), ");");
  }

  void take_tangents(const Parameter& parameter, const std::string& place) {
    each_differentiable_value(
        parameter, place, [&](const Leaf& leaf, const std::string& type, const std::string& here) {
          each_component(leaf.element, [&](const std::string& index, const std::string& component) {
            return c10::str(here, index, " = __tsl_tangent<", type, ">(", leaf.gradient_slot, ", ", component, ");");
          });
        });
  }

  void give_gradients(const Parameter& parameter, const std::string& place) {
    each_differentiable_value(
        parameter, place, [&](const Leaf& leaf, const std::string& type, const std::string& here) {
          each_component(leaf.element, [&](const std::string& index, const std::string& component) {
            return c10::str("__tsl_gradient<", type, ">(", leaf.gradient_slot, ", ", component, ", ", here, index,
                            ");");
          });
        });
  }

  // `use(leaf, its scalar type, its place in the parameter's differential)`
  template <class Use>
  void each_differentiable_value(const Parameter& parameter, const std::string& place, const Use& use) {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) each_differentiable_value(field, member(place, field), use);
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.kind == LeafKind::Value && leaf.differentiable)
      use(leaf, slang_name_of(component_type(leaf.element)), place);
  }

  // The thread is done, wherever the kernel has returned.
  void finish_records() {
    for (const Leaf& leaf : function_.leaves) {
      if (leaf.accumulation != Accumulation::Recorded || !leaf.differentiable) continue;
      const ElementType type = component_type(leaf.element);
      int64_t bytes = type == ElementType::Float64 ? 8 : 4;  // halves are summed in float
      for (const int64_t size : leaf.element.shape) bytes *= size;
      line("__tsl_finish(", leaf.diff_view, ", ", leaf.copies, ", ", bytes, ");");
    }
  }

  const DescribedFunction& kernel_;
  const Function& function_;
  const Instantiation& instantiation_;
  std::string text_;
};

}  // namespace

std::string entry_name(const Instantiation& instantiation) {
  std::string name = c10::str("tsl_", instantiation.function, "_", name_of(instantiation.direction));
  for (const ElementType type : instantiation.types) name += std::string("_") + name_of(type);
  return name;
}

std::string wrapper_source(const DescribedFunction& kernel, const Instantiation& instantiation) {
  TORCH_CHECK(instantiation.types.size() == kernel.function.type_parameters.size(),
              "torch-slangc: ", instantiation.function, " has ", kernel.function.type_parameters.size(),
              " type parameters, but ", instantiation.types.size(), " types were given");
  return WrapperWriter(kernel, instantiation).write();
}

}  // namespace torch_slang
