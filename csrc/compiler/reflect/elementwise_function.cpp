#include "compiler/reflect/elementwise_function.h"

#include <algorithm>

#include "compiler/reflect/attributes.h"
#include "compiler/reflect/default_values.h"
#include "compiler/reflect/flatten.h"
#include "compiler/reflect/view_leaf.h"

namespace torch_slang {
namespace {

using slang::FunctionReflection;
using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

constexpr int64_t kMaxSlots = 16;  // of one leaf: a larger value comes in memory alone

bool has(VariableReflection* variable, Modifier::ID modifier) { return variable->findModifier(modifier) != nullptr; }

Passing passing_of(VariableReflection* variable) {
  const bool out = has(variable, Modifier::Out);
  if (has(variable, Modifier::InOut) || (out && has(variable, Modifier::In))) return Passing::InOut;
  return out ? Passing::Out : Passing::In;
}

// One value that goes in or comes out: a parameter, or the returned value.
class ElementwiseFlattener {
 public:
  ElementwiseFlattener(Function& function, const TypeReader& types, bool is_output)
      : function_(function), types_(types), is_output_(is_output) {}

  struct Item {
    TypeReflection* type;
    std::string own_name;  // "gain", or "1" in an array
    std::string name;      // "cfg_gain"
    std::string path;      // "cfg.gain"
    VariableReflection* variable = nullptr;  // the parameter or field, with its attributes; null: an array's element
    bool is_parameter = false;               // whose default the leaf may have
    std::string default_text = {};
    std::string no_gradient = {};  // Leaf::no_gradient
  };

  // `differentiable`: its surroundings are (the function, or the struct that the field is in), and it is not no_diff.
  // `views_have_gradients`: the function is differentiable, and nothing around is no_diff. A view needs no struct for it.
  Parameter flatten(Item item, bool differentiable, bool views_have_gradients) {
    Parameter parameter;
    parameter.name = item.own_name;
    parameter.slang_type = types_.view_name(item.type);
    const bool inner = differentiable && types_.is_differentiable(item.type);
    if (differentiable && !inner) item.no_gradient = why_not_differentiable(item.type);
    const auto tensor = types_.slangpy_tensor(item.type);
    if (tensor && !item.is_parameter && item.type->getKind() == TypeReflection::Kind::Interface) {
      refuse(subject(item.path), " is a ", parameter.slang_type,
             ", but in structs and arrays a tensor must have the type of a struct: declare it ", tensor->concrete);
    }
    if (tensor || types_.viewed(item.type) != nullptr) {
      parameter.leaf = add_whole(item, views_have_gradients);
      return parameter;
    }
    if (const auto element = types_.element(item.type)) {
      parameter.leaf = add(item, *element, inner);
    } else if (types_.is_struct(item.type) && item.type->getFieldCount() > 0) {
      add_fields(parameter, item, inner, views_have_gradients);
    } else if (const auto count = types_.array_size(item.type)) {
      for (int64_t i = 0; i < *count; ++i) {
        const std::string index = std::to_string(i);
        Item element{item.type->getElementType(), index, item.name + "_" + index, item.path + "[" + index + "]"};
        element.no_gradient = item.no_gradient;
        parameter.fields.push_back(flatten(std::move(element), inner, views_have_gradients));
      }
    } else {
      refuse_type(item, parameter.slang_type);
    }
    return parameter;
  }

 private:
  // Leaf::no_gradient. Integers and the like have no gradient that could be missed.
  std::string why_not_differentiable(TypeReflection* type) const {
    if (const auto element = types_.element(type)) {
      if (element->type_parameter < 0) return {};
      return c10::str("the type parameter ", function_.type_parameters[element->type_parameter].name,
                      " is not IDifferentiable");
    }
    while (types_.array_size(type)) type = type->getElementType();
    return c10::str("the struct ", name_of(type), " is not IDifferentiable");
  }

  void add_fields(Parameter& parameter, const Item& item, bool differentiable, bool views_have_gradients) {
    for (unsigned i = 0; i < item.type->getFieldCount(); ++i) {
      VariableReflection* field = item.type->getFieldByIndex(i);
      const std::string name = field->getName();
      if (has(field, Modifier::Static)) continue;
      if (differentiable && find_attribute(field, "TorchSlangDerivativeMember") != nullptr) {
        refuse(
            subject(item.path), " is a ", parameter.slang_type,
            ", which names a Differential of its own: gradients "
            "have the fields of the struct itself, so leave the Differential to Slang, or mark the parameter no_diff");
      }
      const bool is_constant = has(field, Modifier::NoDiff);
      Item inside{field->getType(), name, item.name + "_" + name, item.path + "." + name, field};
      if (!is_constant) inside.no_gradient = item.no_gradient;
      parameter.fields.push_back(
          flatten(std::move(inside), differentiable && !is_constant, views_have_gradients && !is_constant));
    }
  }

  int add_whole(const Item& item, bool differentiable) {
    if (is_output_) refuse("its result ", item.path, " is a ", types_.view_name(item.type), ", but results are values");
    Leaf leaf;
    leaf.name = item.name;
    leaf.path = item.path;
    leaf.slang_type = types_.view_name(item.type);
    leaf.view().is_whole = true;
    read_attributes(item, leaf);
    fill_view(function_, leaf, item.type, types_, differentiable);
    if (!leaf.diff_view() && differentiable && !leaf.is_written()) {
      leaf.no_gradient = c10::str("it is a ", leaf.slang_type, ", which has no gradient");
    }
    return keep_leaf(function_, std::move(leaf));
  }

  static void read_attributes(const Item& item, Leaf& leaf) {
    if (item.variable == nullptr) return;
    for (const char* name : {"Shape", "Out", "Fill"}) {
      if (find_attribute(item.variable, name) == nullptr) continue;
      refuse("parameter ", item.path, " has the attribute ", name, ", which is for parameters of kernels");
    }
    leaf.view().is_in = find_attribute(item.variable, "In") != nullptr;
  }

  int add(const Item& item, Element element, bool differentiable) {
    Leaf leaf;
    leaf.name = item.name;
    leaf.path = item.path;
    leaf.slang_type = name_of(item.type);
    leaf.element = std::move(element);
    leaf.is_output = is_output_;
    leaf.differentiable = differentiable;
    if (!is_output_) leaf.no_gradient = item.no_gradient;
    leaf.view().primal_view = function_.view_count++;
    if (differentiable) leaf.view().diff_view = function_.view_count++;
    if (!is_output_) add_slots(leaf);
    if (item.is_parameter) read_default(function_, item.variable, item.default_text, leaf);
    return keep_leaf(function_, std::move(leaf));
  }

  void add_slots(Leaf& leaf) {
    int64_t count = 1;
    for (const int64_t size : leaf.element.shape) {
      if (size < 0) return;
      count *= size;
    }
    if (count > kMaxSlots) return;
    leaf.view().slot = function_.slot_count;
    function_.slot_count += static_cast<int>(count);
  }

  std::string subject(const std::string& path) const { return is_output_ ? "its result " + path : "parameter " + path; }

  [[noreturn]] void refuse_type(const Item& item, const std::string& type) const {
    if (types_.has_computed_size(item.type)) {
      refuse(subject(item.path), " is a ", type,
             ", but a size must be a number or a generic parameter by itself, which "
             "the tensor's shape then decides: make the computed size a parameter of its own");
    }
    refuse(subject(item.path), " has the type ", type,
           ", but values of an operator are scalars, vectors, matrices, "
           "enumerations, structs of these, and arrays of known size");
  }

  Function& function_;
  const TypeReader& types_;
  bool is_output_;
};

class ElementwiseDescriber {
 public:
  ElementwiseDescriber(Function& function, ElementwiseCall& call, const TypeReader& types, bool differentiable)
      : function_(function), call_(call), types_(types), differentiable_(differentiable) {}

  void describe(FunctionReflection* reflection, TypeReflection* owner, const std::vector<ParameterText>& texts) {
    if (owner != nullptr) add_this(reflection, owner);
    const auto first = call_.parameters.size();
    if (first > 0) function_.plain().order.emplace_back("this");
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
      function_.plain().order.emplace_back(reflection->getParameterByIndex(i)->getName());
      add_input(reflection->getParameterByIndex(i), texts[i]);
    }
    add_returned(reflection);
    if (first > 0) add_result(owner, "this", call_.parameters.front());
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i)
      add_result(reflection->getParameterByIndex(i), call_.parameters[first + i]);
    if (!any_leaf(false, [](const Leaf&) { return true; }))
      refuse("it takes no argument, so there is nothing that it could be applied to");
    check_results();
    check_generics();
  }

 private:
  void add_this(FunctionReflection* reflection, TypeReflection* owner) {
    call_.owner = name_of(owner);
    call_.is_static = reflection->findModifier(Modifier::Static) != nullptr;
    if (call_.is_static) return;
    PassedValue value;
    value.type = call_.owner;
    value.passing = reflection->findModifier(Modifier::Mutating) != nullptr ? Passing::InOut : Passing::In;
    const bool is_constant = find_attribute(reflection, "TorchSlangNoDiffThis") != nullptr;
    value.paired = differentiable_ && !is_constant && types_.is_differentiable(owner);
    value.input = static_cast<int>(function_.parameters.size());
    function_.parameters.push_back(ElementwiseFlattener(function_, types_, false)
                                       .flatten({owner, "this", "this", "this"}, differentiable_ && !is_constant,
                                                differentiable_ && !is_constant));
    call_.parameters.push_back(std::move(value));
  }

  void add_input(VariableReflection* variable, const ParameterText& text) {
    const std::string name = variable->getName();
    PassedValue value;
    const auto tensor = types_.slangpy_tensor(variable->getType());
    value.type = tensor ? tensor->concrete : name_of(variable->getType());
    value.passing = passing_of(variable);
    const bool is_differentiable = types_.is_differentiable(variable->getType());
    const bool is_constant = is_differentiable ? has(variable, Modifier::NoDiff) : text.no_diff;
    value.paired = differentiable_ && !is_constant && is_differentiable;
    if (value.passing != Passing::Out) {
      value.input = static_cast<int>(function_.parameters.size());
      function_.parameters.push_back(
          ElementwiseFlattener(function_, types_, false)
              .flatten({variable->getType(), name, name, name, variable, true, text.default_value},
                       differentiable_ && !is_constant, differentiable_ && !is_constant));
    }
    call_.parameters.push_back(std::move(value));
  }

  void add_returned(FunctionReflection* reflection) {
    PassedValue& value = call_.returned;
    value.type = name_of(reflection->getReturnType());
    value.passing = Passing::Out;
    if (value.type == "void") return;
    value.paired = differentiable_ && reflection->findModifier(Modifier::NoDiff) == nullptr &&
                   types_.is_differentiable(reflection->getReturnType());
    value.result = static_cast<int>(function_.plain().results.size());
    function_.plain().results.push_back(
        ElementwiseFlattener(function_, types_, true)
            .flatten({reflection->getReturnType(), "result", "result", "result"}, value.paired, false));
  }

  void add_result(VariableReflection* variable, PassedValue& value) {
    add_result(variable->getType(), variable->getName(), value);
  }

  void add_result(TypeReflection* type, const std::string& name, PassedValue& value) {
    if (value.passing == Passing::In) return;
    const std::string leaf_name = value.passing == Passing::InOut ? name + "_out" : name;
    value.result = static_cast<int>(function_.plain().results.size());
    function_.plain().results.push_back(
        ElementwiseFlattener(function_, types_, true).flatten({type, name, leaf_name, name}, value.paired, false));
  }

  template <class Holds>
  bool any_leaf(bool is_output, const Holds& holds) const {
    return std::any_of(function_.leaves.begin(), function_.leaves.end(),
                       [&](const Leaf& leaf) { return leaf.is_output == is_output && holds(leaf); });
  }

  // Last of all: a function refused here has all else that an operator needs.
  void check_generics() {
    for (size_t i = 0; i < function_.type_parameters.size(); ++i) {
      const TypeParameter& parameter = function_.type_parameters[i];
      if (parameter.allowed.empty())
        refuse("no number is of a type that its type parameter ", parameter.name, " allows");
      if (any_leaf(false, [&](const Leaf& leaf) { return leaf.element.type_parameter == static_cast<int>(i); }))
        continue;
      refuse_undecided("type parameter " + parameter.name);
    }
    for (size_t i = 0; i < function_.plain().size_parameters.size(); ++i) {
      const auto has_size = [&](const Leaf& leaf) {
        const auto& shape = leaf.element.shape;
        return std::find(shape.begin(), shape.end(), -1 - static_cast<int64_t>(i)) != shape.end();
      };
      if (any_leaf(false, has_size)) continue;
      refuse_undecided("size " + function_.plain().size_parameters[i]);
    }
  }

  [[noreturn]] void refuse_undecided(const std::string& what) {
    function_.wants_generic_arguments = true;
    refuse("no argument has its ", what, ", so no argument decides it: give it, as in require_function(\"",
           function_.name, "<4>\")");
  }

  void check_results() {
    const auto may_be_written = [](const Leaf& leaf) {
      return leaf.is_written() || (leaf.is_whole() && !leaf.view().is_in && !leaf.diff_view());
    };
    if (!any_leaf(true, [](const Leaf&) { return true; }) && !any_leaf(false, may_be_written)) refuse(kGivesNothing);
    const auto differentiable = [](const Leaf& leaf) { return leaf.differentiable; };
    const auto is_stored = [&](const Leaf& leaf) { return leaf.is_written() && leaf.differentiable; };
    const bool any_gradient =
        any_leaf(false, differentiable) && (any_leaf(true, differentiable) || any_leaf(false, is_stored));
    function_.has_backward = function_.has_backward && any_gradient;
    function_.has_forward_derivative = function_.has_forward_derivative && any_gradient;
  }

  Function& function_;
  ElementwiseCall& call_;
  const TypeReader& types_;
  bool differentiable_;
};

}  // namespace

void describe_elementwise_function(Function& function, ElementwiseCall& call, FunctionReflection* reflection,
                                   TypeReflection* owner, const std::vector<ParameterText>& texts,
                                   const TypeReader& types, bool differentiable) {
  ElementwiseDescriber(function, call, types, differentiable).describe(reflection, owner, texts);
}

}  // namespace torch_slang
