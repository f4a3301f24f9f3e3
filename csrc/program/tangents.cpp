#include "program/tangents.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace torch_slang {
namespace {

// Leaves of a parameter in the new function, those without a tangent left out.
std::optional<Parameter> tangents_of(const Parameter& parameter, const std::vector<int>& tangents) {
  Parameter copy = parameter;
  copy.fields.clear();
  if (parameter.leaf >= 0) {
    copy.leaf = tangents[parameter.leaf];
    return copy.leaf >= 0 ? std::optional(copy) : std::nullopt;
  }
  for (const Parameter& field : parameter.fields) {
    if (auto inner = tangents_of(field, tangents)) copy.fields.push_back(*std::move(inner));
  }
  return copy.fields.empty() ? std::nullopt : std::optional(copy);
}

class Maker {
 public:
  Maker(const Function& function, const std::string& name, bool has_values) : function_(function), made_(function) {
    made_.name = name;
    made_.has_values = has_values;
    made_.tangents_of = function.text_name();
    made_.has_forward_derivative = false;
    made_.torch_op = false;
    tangents_.resize(function.leaves.size(), -1);
  }

  Function make() {
    if (function_.is_kernel()) {
      keep_kernels_own();
    } else {
      keep_inputs();
    }
    for (const bool outputs : {false, true}) {
      for (size_t i = 0; i < function_.leaves.size(); ++i) {
        const Leaf& leaf = function_.leaves[i];
        if (leaf.is_output != outputs) continue;
        if (leaf.differentiable) add_tangent(static_cast<int>(i));
        if (leaf.is_generated() && leaf.diff_view()) made_.view_count += 2;  // the text has its tangent: zero
      }
    }
    if (!made_.is_kernel()) made_.plain().results = trees(function_.plain().results);
    if (made_.has_values) add_values();
    for (Parameter& tree : trees(function_.parameters)) made_.parameters.push_back(std::move(tree));
    return std::move(made_);
  }

 private:
  void keep_kernels_own() {
    for (size_t i = 0; i < made_.leaves.size(); ++i) {
      made_.leaves[i].origin = static_cast<int>(i);
      made_.leaves[i].is_hidden = made_.leaves[i].is_output;
    }
  }

  // They come first, and so do their views.
  void keep_inputs() {
    made_.leaves.clear();
    made_.view_count = 0;
    for (size_t i = 0; i < function_.leaves.size() && !function_.leaves[i].is_output; ++i) {
      Leaf& leaf = made_.leaves.emplace_back(function_.leaves[i]);
      leaf.origin = static_cast<int>(i);
      const BlockPlace& place = leaf.place();
      made_.view_count = std::max({made_.view_count, place.primal_view + 1, place.diff_view.value_or(-1) + 1});
    }
  }

  void add_tangent(int origin) {
    Leaf leaf = function_.leaves[origin];
    leaf.name = "tangent_" + leaf.name;
    while (is_taken(leaf.name)) leaf.name = "jvp_" + leaf.name;  // a parameter has that name
    leaf.path = leaf.name;
    leaf.origin = origin;
    leaf.is_tangent = true;
    leaf.default_float.reset();
    leaf.default_int.reset();
    leaf.kind = function_.leaves[origin].visit(
        [&](const ViewLeaf& view) -> LeafKind { return tangent_of(view, leaf); },
        [&](const ValueLeaf& value) -> LeafKind { return tangent_of(value, leaf.element); },
        [](const GeneratedLeaf&) -> LeafKind { TORCH_INTERNAL_ASSERT(false, "it is not differentiable"); });
    tangents_[origin] = static_cast<int>(made_.leaves.size());
    made_.leaves.push_back(std::move(leaf));
  }

  void add_values() {
    for (size_t i = 0; i < function_.leaves.size(); ++i) {
      if (!function_.leaves[i].is_output) continue;
      Leaf& leaf = made_.leaves.emplace_back(function_.leaves[i]);
      leaf.origin = static_cast<int>(i);
      leaf.view().primal_view = made_.view_count++;
      leaf.view().diff_view.reset();
    }
    made_.has_backward = false;
    for (Leaf& leaf : made_.leaves) leaf.differentiable = false;
  }

  bool is_taken(const std::string& name) const {
    return std::any_of(made_.leaves.begin(), made_.leaves.end(), [&](const Leaf& leaf) { return leaf.name == name; });
  }

  ViewLeaf tangent_of(ViewLeaf view, const Leaf& leaf) {
    if (view.fill) view.fill = 0;
    if (function_.is_kernel() && !leaf.is_output) view.shape = function_.leaves[leaf.origin].name;
    view.primal_view = made_.view_count++;
    view.diff_view = made_.view_count++;
    if (view.gradient_slots) view.gradient_slots = take_slots(slot_count(view.gathering().memory));
    if (view.slot) view.slot = take_slots(component_count(leaf.element));
    return view;
  }

  ValueLeaf tangent_of(ValueLeaf value, const Element& element) {
    value.slot = take_slots(component_count(element));
    value.pointer_slot = take_slots(1);
    value.gradient_slot = take_slots(1);
    return value;
  }

  int take_slots(int64_t count) {
    const int first = made_.slot_count;
    made_.slot_count += static_cast<int>(count);
    return first;
  }

  std::vector<Parameter> trees(const std::vector<Parameter>& parameters) const {
    std::vector<Parameter> all;
    for (const Parameter& parameter : parameters) {
      if (auto tree = tangents_of(parameter, tangents_)) all.push_back(*std::move(tree));
    }
    return all;
  }

  const Function& function_;
  Function made_;
  std::vector<int> tangents_;  // by leaf of the original: its tangent, or -1
};

std::optional<Function> make(const Function& function, const std::string& name, bool has_values) {
  const auto any = [&](bool outputs) {
    return std::any_of(function.leaves.begin(), function.leaves.end(),
                       [&](const Leaf& leaf) { return leaf.is_output == outputs && leaf.differentiable; });
  };
  if (sees_tensors(function) || !function.has_forward_derivative || !any(false) || !any(true)) return std::nullopt;
  return Maker(function, name, has_values).make();
}

}  // namespace

std::optional<Function> tangents_function(const Function& function, const std::string& name) {
  return make(function, name, /*has_values=*/false);
}

std::optional<Function> dual_function(const Function& function, const std::string& name) {
  return function.is_kernel() ? std::nullopt : make(function, name, /*has_values=*/true);
}

}  // namespace torch_slang
