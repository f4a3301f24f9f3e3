#include "compiler/describe.h"

#include <c10/util/StringUtil.h>

#include <set>

#include "compiler/attributes.h"
#include "compiler/com.h"
#include "compiler/types.h"

namespace torch_slang {
namespace {

using slang::DeclReflection;
using slang::FunctionReflection;
using slang::GenericReflection;
using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

// A function cannot become an operator: why. Turned into Function::refusal.
struct Refusal {
  std::string reason;
};

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Refusal{c10::str(parts...)};
}

bool has(VariableReflection* variable, Modifier::ID modifier) { return variable->findModifier(modifier) != nullptr; }

int64_t component_count(const Element& element) {
  int64_t count = 1;
  for (const int64_t size : element.shape) count *= size;
  return count;
}

// Flattens one function's parameters into leaves, in order, and lays out the argument block as it goes.
class Flattener {
 public:
  Flattener(Function& function, const TypeReader& types, bool differentiable_function)
      : function_(function), types_(types), differentiable_function_(differentiable_function) {}

  Parameter top_level(VariableReflection* variable) {
    const std::string name = variable->getName();
    TypeReflection* type = variable->getType();
    refuse_out(variable, name, type);
    return flatten({variable, type, name, name, name}, differentiable_function_);
  }

 private:
  static void refuse_out(VariableReflection* variable, const std::string& name, TypeReflection* type) {
    const char* word = has(variable, Modifier::InOut) ? "inout" : has(variable, Modifier::Out) ? "out" : nullptr;
    if (word == nullptr) return;
    refuse("parameter ", name, " is `", word, " ", name_of(type), "`, but ", word,
           " parameters cannot be arguments of an operator: write results through a TensorView or DiffTensorView "
           "parameter, without ", word);
  }

  // One parameter, field or array element. The variable, for its attributes, is that of the parameter or field.
  struct Item {
    VariableReflection* variable;
    TypeReflection* type;
    std::string own_name;  // "gain", or "1" in an array
    std::string name;      // "cfg_gain"
    std::string path;      // "cfg.gain"
  };

  // `differentiable`: the surroundings are (the function, and the struct that the field is in).
  Parameter flatten(const Item& item, bool differentiable) {
    Parameter parameter;
    parameter.name = item.own_name;
    parameter.slang_type = name_of(item.type);
    if (types_.viewed(item.type) != nullptr) {
      parameter.leaf = add_view(item);
      return parameter;
    }
    const bool inner = differentiable && !has(item.variable, Modifier::NoDiff) && types_.is_differentiable(item.type);
    if (types_.element(item.type)) {
      parameter.leaf = add_value(item, inner);
    } else if (types_.is_struct(item.type)) {
      for (unsigned i = 0; i < item.type->getFieldCount(); ++i) {
        VariableReflection* field = item.type->getFieldByIndex(i);
        const std::string name = field->getName();
        if (has(field, Modifier::Static)) continue;
        parameter.fields.push_back(
            flatten({field, field->getType(), name, item.name + "_" + name, item.path + "." + name}, inner));
      }
    } else if (const auto count = types_.array_size(item.type)) {
      for (int64_t i = 0; i < *count; ++i) {
        const std::string index = std::to_string(i);
        parameter.fields.push_back(flatten({item.variable, item.type->getElementType(), index, item.name + "_" + index,
                                            item.path + "[" + index + "]"},
                                           inner));
      }
    } else {
      refuse("parameter ", item.path, " has the type ", parameter.slang_type,
             ", which cannot be an argument of an operator; tensors are TensorView or DiffTensorView, values are "
             "scalars, vectors and matrices, and there may be arrays and structs of all these");
    }
    return parameter;
  }

  int add_view(const Item& item) {
    Leaf leaf = named_leaf(item);
    leaf.kind = LeafKind::View;
    const auto element = types_.view_element(types_.viewed(item.type));
    if (!element) {
      refuse("parameter ", item.path, " is a ", leaf.slang_type, ", but the elements of a view of an operator must be ",
             "scalars, vectors, or structs of scalars and 3-vectors of one type");
    }
    leaf.element = *element;
    leaf.primal_view = function_.view_count++;
    if (types_.is_diff_view(item.type)) {
      leaf.diff_view = function_.view_count++;
      leaf.differentiable = differentiable_function_;
    }
    if (auto shape = find_string_attribute(item.variable, "Shape")) leaf.shape = shape;
    if (auto shape = find_string_attribute(item.variable, "Out")) {
      leaf.shape = shape;
      leaf.is_output = true;
    }
    leaf.is_in = find_attribute(item.variable, "In") != nullptr;
    if (slang::Attribute* fill = find_attribute(item.variable, "Fill")) leaf.fill = number_argument(fill, 0);
    return keep(std::move(leaf));
  }

  int add_value(const Item& item, bool differentiable) {
    for (const char* name : {"Shape", "Out", "Fill", "In"}) {
      if (find_attribute(item.variable, name) == nullptr) continue;
      refuse("parameter ", item.path, " has the attribute ", name, ", which is for tensors, but it is a ",
             name_of(item.type));
    }
    Leaf leaf = named_leaf(item);
    leaf.kind = LeafKind::Value;
    leaf.element = *types_.element(item.type);
    leaf.differentiable = differentiable;
    leaf.slot = function_.slot_count;
    function_.slot_count += static_cast<int>(component_count(leaf.element));
    if (differentiable) {
      leaf.pointer_slot = function_.slot_count++;
      leaf.gradient_slot = function_.slot_count++;
    }
    read_default(item.variable, leaf);
    return keep(std::move(leaf));
  }

  static void read_default(VariableReflection* variable, Leaf& leaf) {
    if (!variable->hasDefaultValue()) return;
    int64_t whole = 0;
    float number = 0;
    if (SLANG_SUCCEEDED(variable->getDefaultValueInt(&whole))) {
      leaf.default_int = whole;
    } else if (SLANG_SUCCEEDED(variable->getDefaultValueFloat(&number))) {
      leaf.default_float = number;
    }
  }

  static Leaf named_leaf(const Item& item) {
    Leaf leaf;
    leaf.name = item.name;
    leaf.path = item.path;
    leaf.slang_type = name_of(item.type);
    return leaf;
  }

  int keep(Leaf leaf) {
    for (const Leaf& other : function_.leaves) {
      if (other.name == leaf.name) {
        refuse("the parameters ", other.path, " and ", leaf.path, " would both be the argument ", leaf.name,
               " of the operator; rename one");
      }
    }
    function_.leaves.push_back(std::move(leaf));
    return static_cast<int>(function_.leaves.size()) - 1;
  }

  Function& function_;
  const TypeReader& types_;
  bool differentiable_function_;
};

class ModuleDescriber {
 public:
  ModuleDescriber(slang::ISession* session, slang::ShaderReflection* layout, std::string file)
      : session_(session), layout_(layout), file_(std::move(file)) {}

  std::vector<DescribedFunction> all(DeclReflection* module) {
    walk(module, {});
    refuse_overloads();
    return std::move(found_);
  }

 private:
  void walk(DeclReflection* parent, const std::vector<std::string>& scope) {
    for (DeclReflection* child : parent->getChildren()) {
      switch (child->getKind()) {
        case DeclReflection::Kind::Namespace: {
          auto inner = scope;
          inner.push_back(child->getName());
          walk(child, inner);
          break;
        }
        case DeclReflection::Kind::Func:
          add(child, child->asFunction(), nullptr, scope);
          break;
        case DeclReflection::Kind::Generic: {
          GenericReflection* generic = child->asGeneric();
          if (generic->getInnerKind() == SLANG_DECL_KIND_FUNC) {
            add(child, generic->getInnerDecl()->asFunction(), generic, scope);
          }
          break;
        }
        default:
          break;
      }
    }
  }

  void add(DeclReflection* declaration, FunctionReflection* reflection, GenericReflection* generic,
           const std::vector<std::string>& scope) {
    DescribedFunction described;
    Function& function = described.function;
    for (const std::string& part : scope) {
      function.name += part + "_";
      function.qualified_name += part + ".";
    }
    function.name += reflection->getName();
    function.qualified_name += reflection->getName();
    function.file = file_;
    slang::SourceLocation location;
    if (SLANG_SUCCEEDED(session_->getDeclSourceLocation(declaration, &location))) {
      function.line = static_cast<int>(location.line);
      if (location.filePath != nullptr) function.file = location.filePath;
    }
    try {
      fill(described, reflection, generic);
    } catch (const Refusal& refusal) {
      function.refusal = refusal.reason;
    }
    found_.push_back(std::move(described));
  }

  void fill(DescribedFunction& described, FunctionReflection* reflection, GenericReflection* generic) {
    Function& function = described.function;
    read_attributes(function, reflection);
    const bool differentiable = link_derivatives(function, reflection);
    const TypeReader types = read_type_parameters(function, generic);
    if (function.is_kernel && name_of(reflection->getReturnType()) != "void") {
      refuse("a kernel returns nothing, but this one returns ", name_of(reflection->getReturnType()),
             "; write results through a TensorView or DiffTensorView parameter");
    }
    Flattener flattener(function, types, differentiable);
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
      VariableReflection* variable = reflection->getParameterByIndex(i);
      function.parameters.push_back(flattener.top_level(variable));
      TypeReflection* type = variable->getType();
      described.paired.push_back(types.viewed(type) == nullptr && !has(variable, Modifier::NoDiff) &&
                                 types.is_differentiable(type));
    }
  }

  static void read_attributes(Function& function, FunctionReflection* reflection) {
    function.is_kernel = false;
    for (const char* name : {"TorchSlangKernel", "PyBindCUDA", "PyBindCUDAFwdDiff", "PyBindCUDABwdDiff"}) {
      function.is_kernel = function.is_kernel || find_attribute(reflection, name) != nullptr;
    }
    function.torch_op = find_attribute(reflection, "TorchOp") != nullptr;
    function.launch_total = find_string_attribute(reflection, "LaunchTotal");
    function.parallel = find_string_attribute(reflection, "Parallel");
    if (slang::Attribute* block = find_attribute(reflection, "BlockSize")) {
      for (unsigned i = 0; i < 3; ++i) function.block_size.push_back(int_argument(block, i));
    }
    for (unsigned i = 0; i < reflection->getUserAttributeCount(); ++i) {
      slang::Attribute* attribute = reflection->getUserAttributeByIndex(i);
      if (std::string(attribute->getName()) != "Tune") continue;
      function.tune.emplace_back(string_argument(attribute, 0), string_argument(attribute, 1));
    }
  }

  // [Differentiable] links both derivatives, unless the explicit attributes choose. [ForwardDifferentiable] has no
  // backward; of a function with a [BackwardDerivative] alone Slang would make a forward derivative of zeros.
  static bool link_derivatives(Function& function, FunctionReflection* reflection) {
    const auto marked = [&](const char* name) { return find_attribute(reflection, name) != nullptr; };
    const bool differentiable = reflection->findModifier(Modifier::Differentiable) != nullptr;
    const bool has_forward = differentiable && (!marked("TorchSlangOwnBackward") || marked("TorchSlangOwnForward"));
    const bool has_backward = differentiable && !marked("TorchSlangForwardOnly");
    const bool chosen = marked("PyBindCUDAFwdDiff") || marked("PyBindCUDABwdDiff");
    function.has_backward = has_backward && (!chosen || marked("PyBindCUDABwdDiff"));
    function.has_forward_derivative = has_forward && (!chosen || marked("PyBindCUDAFwdDiff"));
    return differentiable;
  }

  TypeReader read_type_parameters(Function& function, GenericReflection* generic) {
    std::vector<std::string> names;
    std::vector<bool> differentiable;
    if (generic != nullptr) {
      if (generic->getValueParameterCount() > 0) {
        refuse("it is generic over the value ", generic->getValueParameter(0)->getName(),
               "; an operator may be generic over types alone");
      }
      const TypeReader plain(layout_, {}, {});
      for (unsigned i = 0; i < generic->getTypeParameterCount(); ++i) {
        VariableReflection* variable = generic->getTypeParameter(i);
        std::vector<TypeReflection*> constraints;
        bool diff = false;
        for (unsigned k = 0; k < generic->getTypeParameterConstraintCount(variable); ++k) {
          constraints.push_back(generic->getTypeParameterConstraintType(variable, k));
          diff = diff || conforms(layout_, constraints.back(), layout_->findTypeByName("IDifferentiable"));
        }
        names.push_back(variable->getName());
        differentiable.push_back(diff);
        function.type_parameters.push_back({names.back(), plain.allowed(constraints)});
      }
    }
    return {layout_, names, differentiable};
  }

  void refuse_overloads() {
    for (DescribedFunction& one : found_) {
      for (DescribedFunction& other : found_) {
        if (&one == &other || one.function.name != other.function.name) continue;
        one.function.refusal = c10::str("there are several functions ", one.function.name,
                                        " and an operator can have no overloads; rename the others");
      }
    }
  }

  slang::ISession* session_;
  slang::ShaderReflection* layout_;
  std::string file_;
  std::vector<DescribedFunction> found_;
};

}  // namespace

std::vector<DescribedFunction> describe_module(slang::ISession* session, slang::IModule* module,
                                               const std::string& file) {
  Com<ISlangBlob> diagnostics;
  slang::ShaderReflection* layout = module->getLayout(0, diagnostics.out());
  TORCH_CHECK(layout != nullptr, "torch-slangc: no reflection of ", file, "\n", text_of(diagnostics.get()));
  return ModuleDescriber(session, layout, file).all(module->getModuleReflection());
}

std::vector<std::string> shader_parameters(slang::IModule* module) {
  std::vector<std::string> names;
  slang::ShaderReflection* layout = module->getLayout();
  for (unsigned i = 0; layout != nullptr && i < layout->getParameterCount(); ++i) {
    names.emplace_back(layout->getParameterByIndex(i)->getName());
  }
  return names;
}

}  // namespace torch_slang
