#include "compiler/reflect/flatten.h"

#include "compiler/reflect/attributes.h"
#include "compiler/reflect/default_values.h"
#include "compiler/reflect/view_leaf.h"

namespace torch_slang {
namespace {

using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

bool has(VariableReflection* variable, Modifier::ID modifier) { return variable->findModifier(modifier) != nullptr; }

class Flattener {
 public:
  Flattener(Function& function, const TypeReader& types, bool differentiable_function)
      : function_(function), types_(types), differentiable_function_(differentiable_function) {}

  Parameter top_level(VariableReflection* variable, const std::string& default_text) {
    default_text_ = default_text;
    const std::string name = variable->getName();
    TypeReflection* type = variable->getType();
    refuse_out(variable, name, type);
    return flatten({variable, type, name, name, name, std::nullopt}, differentiable_function_);
  }

 private:
  static void refuse_out(VariableReflection* variable, const std::string& name, TypeReflection* type) {
    const char* word = has(variable, Modifier::InOut) ? "inout" : has(variable, Modifier::Out) ? "out" : nullptr;
    if (word == nullptr) return;
    refuse("parameter ", name, " is `", word, " ", name_of(type), "`, but ", word,
           " parameters cannot be arguments of an operator: write results through a TensorView or DiffTensorView "
           "parameter, without ",
           word);
  }

  // One parameter, field or array element. The variable, for its attributes, is that of the parameter or field.
  struct Item {
    VariableReflection* variable;
    TypeReflection* type;
    std::string own_name;  // "gain", or "1" in an array
    std::string name;      // "cfg_gain"
    std::string path;      // "cfg.gain"
    std::optional<std::string> shape;  // of a struct around it, for tensors that have none of their own
  };

  // `differentiable`: the surroundings are (the function, and the struct that the field is in).
  Parameter flatten(const Item& item, bool differentiable) {
    Parameter parameter;
    parameter.name = item.own_name;
    parameter.slang_type = types_.view_name(item.type);
    if (types_.viewed(item.type) != nullptr) {
      parameter.leaf = add_view(item);
      return parameter;
    }
    const bool inner = differentiable && !has(item.variable, Modifier::NoDiff) && types_.is_differentiable(item.type);
    if (types_.element(item.type)) {
      parameter.leaf = add_value(item, inner);
    } else if (types_.is_struct(item.type) && parameter.slang_type != "String") {  // which to reflection has no fields
      const std::optional<std::string> shape = shape_of_struct(item);
      for (unsigned i = 0; i < item.type->getFieldCount(); ++i) {
        VariableReflection* field = item.type->getFieldByIndex(i);
        const std::string name = field->getName();
        if (has(field, Modifier::Static)) continue;
        parameter.fields.push_back(
            flatten({field, field->getType(), name, item.name + "_" + name, item.path + "." + name, shape}, inner));
      }
    } else if (const auto count = types_.array_size(item.type)) {
      for (int64_t i = 0; i < *count; ++i) {
        const std::string index = std::to_string(i);
        parameter.fields.push_back(flatten({item.variable, item.type->getElementType(), index, item.name + "_" + index,
                                            item.path + "[" + index + "]", item.shape},
                                           inner));
      }
    } else {
      refuse("parameter ", item.path, " has the type ", parameter.slang_type,
             ", which cannot be an argument of an operator; tensors are TensorView or DiffTensorView, values are "
             "scalars, vectors and matrices, and there may be arrays and structs of all these");
    }
    return parameter;
  }

  static std::optional<std::string> shape_of(const Item& item) {
    auto own = find_string_attribute(item.variable, "Shape");
    return own ? own : item.shape;
  }

  static std::optional<std::string> shape_of_struct(const Item& item) {
    for (const char* name : {"Out", "Fill", "In", "MultipleOf"}) {
      if (find_attribute(item.variable, name) == nullptr) continue;
      refuse("parameter ", item.path, " has the attribute ", name, ", but it is a struct, ", name_of(item.type),
             ": write the attribute in front of the struct's fields");
    }
    return shape_of(item);
  }

  int add_view(const Item& item) {
    Leaf leaf = named_leaf(item);
    fill_view(function_, leaf, item.type, types_, differentiable_function_);
    leaf.view().shape = shape_of(item);
    if (auto shape = find_string_attribute(item.variable, "Out")) {
      leaf.view().shape = shape;
      leaf.is_output = true;
    }
    leaf.view().is_in = find_attribute(item.variable, "In") != nullptr;
    if (find_attribute(item.variable, "MultipleOf") != nullptr) {
      refuse("parameter ", item.path, " has the attribute MultipleOf, which is for integers, but it is a ",
             leaf.slang_type);
    }
    if (slang::Attribute* fill = find_attribute(item.variable, "Fill")) leaf.view().fill = number_argument(fill, 0);
    return keep_leaf(function_, std::move(leaf));
  }

  int add_value(const Item& item, bool differentiable) {
    for (const char* name : {"Shape", "Out", "Fill", "In"}) {
      if (find_attribute(item.variable, name) == nullptr) continue;
      refuse("parameter ", item.path, " has the attribute ", name, ", which is for tensors, but it is a ",
             name_of(item.type));
    }
    Leaf leaf = named_leaf(item);
    ValueLeaf& value = leaf.kind.emplace<ValueLeaf>();
    leaf.element = *types_.element(item.type);
    leaf.differentiable = differentiable;
    value.slot = function_.slot_count;
    function_.slot_count += static_cast<int>(component_count(leaf.element));
    if (differentiable) {
      value.pointer_slot = function_.slot_count++;
      value.gradient_slot = function_.slot_count++;
    }
    value.multiple_of = multiple_of(item, leaf.element);
    read_default(function_, item.variable, default_text_, leaf);
    return keep_leaf(function_, std::move(leaf));
  }

  static int64_t multiple_of(const Item& item, const Element& element) {
    slang::Attribute* attribute = find_attribute(item.variable, "MultipleOf");
    if (attribute == nullptr) return 1;
    const int64_t factor = int_argument(attribute, 0);
    const bool is_integer = element.type_parameter < 0 && element.shape.empty() && !is_floating_point(element.type) &&
                            element.type != ElementType::Bool;
    if (!is_integer) refuse("parameter ", item.path, " has the attribute MultipleOf, but it is no integer");
    if (factor < 1)
      refuse("parameter ", item.path, " has the attribute MultipleOf(", factor, "), which must be positive");
    return factor;
  }

  Leaf named_leaf(const Item& item) const {
    Leaf leaf;
    leaf.name = item.name;
    leaf.path = item.path;
    leaf.slang_type = types_.view_name(item.type);
    return leaf;
  }

  Function& function_;
  const TypeReader& types_;
  bool differentiable_function_;
  std::string default_text_;
};

}  // namespace

int keep_leaf(Function& function, Leaf leaf) {
  for (const Leaf& other : function.leaves) {
    if (other.name == leaf.name) {
      refuse("two parameters or results of the function, ", other.path, " and ", leaf.path, ", would both be called ",
             leaf.name, " in the operator; rename one");
    }
  }
  function.leaves.push_back(std::move(leaf));
  return static_cast<int>(function.leaves.size()) - 1;
}

void add_parameter(Function& function, VariableReflection* variable, const std::string& default_text,
                   const TypeReader& types, bool differentiable_function) {
  function.parameters.push_back(Flattener(function, types, differentiable_function).top_level(variable, default_text));
}

}  // namespace torch_slang
