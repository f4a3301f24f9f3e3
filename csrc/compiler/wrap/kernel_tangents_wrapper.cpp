#include "compiler/wrap/kernel_tangents_wrapper.h"

#include <c10/util/Exception.h>

#include <functional>

#include "compiler/wrap/wrapper_text.h"
#include "program/enumerations.h"
#include "program/tangents.h"

namespace torch_slang {
namespace {

Function made_of(const Function& function) {
  auto made = tangents_function(function, function.name);
  TORCH_CHECK(made, "torch-slangc: ", function.name, " has no forward derivative");
  return *std::move(made);
}

class KernelTangentsWriter {
 public:
  KernelTangentsWriter(const DescribedFunction& kernel, const Instantiation& instantiation)
      : kernel_(kernel),
        function_(kernel.function),
        made_(made_of(kernel.function)),
        instantiation_(instantiation),
        text_(made_, instantiation) {
    tangents_.resize(function_.leaves.size());
    for (const Leaf& leaf : made_.leaves) {
      if (leaf.is_tangent) tangents_[leaf.origin] = &leaf;
    }
  }

  std::string write() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const std::string type = text_.concrete(function_.parameters[i].slang_type);
      text_.line(type, " ", variable(i), ";");
      fetch(function_.parameters[i], variable(i));
      if (!kernel_.paired[i]) continue;
      text_.line("var ", tangent(i), " = __tsl_zero<", type, ">();");
      each_value(function_.parameters[i], tangent(i),
                 [&](const Leaf& leaf, const std::string& here) { fetch_value(*tangents_[index_of(leaf)], here); });
      text_.line("DifferentialPair<", type, "> ", pair(i), " = diffPair(", variable(i), ", ", tangent(i), ");");
    }
    if (instantiation_.direction == Direction::Tangents) {
      text_.line("fwd_diff(", differentiated(), ")(", arguments(pair), ");");
    } else {
      call_backward();
    }
    return forwarder() + tangents_function_text() + text_.entry_point();
  }

 private:
  static std::string variable(size_t index) { return c10::str("tsl_p", index); }
  static std::string tangent(size_t index) { return c10::str("tsl_t", index); }
  static std::string pair(size_t index) { return c10::str("tsl_d", index); }
  static std::string pair_of_pair(size_t index) { return c10::str("tsl_w", index); }

  size_t index_of(const Leaf& leaf) const { return static_cast<size_t>(&leaf - function_.leaves.data()); }

  std::string callee() const {
    std::string list;
    for (const ElementType type : instantiation_.types)
      list += (list.empty() ? "" : ", ") + std::string(slang_name_of(type));
    return function_.qualified_name + (list.empty() ? "" : "<" + list + ">");
  }
  std::string differentiated() const {
    return kernel_.shares_name ? entry_name(instantiation_) + "_forwarder" : callee();
  }

  std::string arguments(const std::function<std::string(size_t)>& of_paired) const {
    std::string list;
    for (size_t i = 0; i < function_.parameters.size(); ++i)
      list += (i == 0 ? "" : ", ") + (kernel_.paired[i] ? of_paired(i) : variable(i));
    return list;
  }
  std::string head(const char* pair_begin, const char* pair_end) const {
    std::string list;
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const std::string type = text_.concrete(function_.parameters[i].slang_type);
      list += i == 0 ? "" : ", ";
      list += kernel_.paired[i] ? c10::str(pair_begin, type, pair_end) : "no_diff " + type;
      list += " " + variable(i);
    }
    return list;
  }
  // By its name Slang finds no derivative of a function whose name others have.
  std::string forwarder() const {
    if (!kernel_.shares_name) return {};
    return c10::str("[Differentiable] void ", differentiated(), "(", head("", ""), ") { ", callee(), "(",
                    arguments(variable), "); }\n");
  }
  // Slang takes no derivative of a derivative, but one of a function that calls it.
  std::string tangents_function_text() const {
    if (instantiation_.direction == Direction::Tangents) return {};
    return c10::str("[Differentiable] void ", entry_name(instantiation_), "_tangents(", head("DifferentialPair<", ">"),
                    ") { fwd_diff(", differentiated(), ")(", arguments(variable), "); }\n");
  }

  void call_backward() {
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (kernel_.paired[i]) text_.line("var ", pair_of_pair(i), " = __tsl_pair(", pair(i), ");");
    }
    text_.line("bwd_diff(", entry_name(instantiation_), "_tangents)(", arguments(pair_of_pair), ");");
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      if (!kernel_.paired[i]) continue;
      give_gradients(i, pair_of_pair(i) + ".d.p", [&](const Leaf& leaf) -> const Leaf& { return leaf; });
      give_gradients(i, pair_of_pair(i) + ".d.d",
                     [&](const Leaf& leaf) -> const Leaf& { return *tangents_[index_of(leaf)]; });
    }
    text_.finish_records();
  }

  void give_gradients(size_t parameter, const std::string& lvalue, const std::function<const Leaf&(const Leaf&)>& of) {
    each_value(function_.parameters[parameter], lvalue, [&](const Leaf& leaf, const std::string& here) {
      const std::string type = text_.component_type_name(leaf);
      text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
        return c10::str("__tsl_gradient<", type, ">(", *of(leaf).value().gradient_slot, ", ", component, ", ", here,
                        index, ");");
      });
    });
  }

  // `use(leaf, its lvalue)` for each differentiable value in a parameter.
  void each_value(const Parameter& parameter, const std::string& lvalue,
                  const std::function<void(const Leaf&, const std::string&)>& use) const {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) each_value(field, member(lvalue, field), use);
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.is_value() && leaf.differentiable) use(leaf, lvalue);
  }

  void fetch(const Parameter& parameter, const std::string& lvalue) {
    if (parameter.leaf < 0) {
      for (const Parameter& field : parameter.fields) fetch(field, member(lvalue, field));
      return;
    }
    const Leaf& leaf = function_.leaves[parameter.leaf];
    if (leaf.is_value()) return fetch_value(leaf, lvalue);
    const Leaf* tangent = tangents_[parameter.leaf];
    if (!leaf.diff_view()) {
      text_.line("__tsl_bind(", lvalue, ", ", leaf.place().primal_view, ");");
      return;
    }
    text_.line("__tsl_bind(", lvalue, ".primal, ", leaf.place().primal_view, ");");
    text_.line("__tsl_bind(", lvalue, ".diff.diff, ", *leaf.diff_view(), ");");
    if (tangent == nullptr) return;
    text_.line("__tsl_bind(", lvalue, ".tangent, ", tangent->place().primal_view, ");");
    text_.line("__tsl_bind(", lvalue, ".tangent_diff.diff, ", *tangent->diff_view(), ");");
  }

  void fetch_value(const Leaf& leaf, const std::string& lvalue) {
    text_.each_component(leaf, [&](const std::string& index, const std::string& component) {
      return text_.value(leaf, lvalue + index, component);
    });
  }

  const DescribedFunction& kernel_;
  const Function& function_;
  const Function made_;
  const Instantiation& instantiation_;
  WrapperText text_;
  std::vector<const Leaf*> tangents_;  // by leaf of the kernel; null where it has none
};

}  // namespace

std::string kernel_tangents_wrapper(const DescribedFunction& kernel, const Instantiation& instantiation) {
  return KernelTangentsWriter(kernel, instantiation).write();
}

}  // namespace torch_slang
