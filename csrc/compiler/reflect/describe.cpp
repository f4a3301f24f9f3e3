#include "compiler/reflect/describe.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "common/identifiers.h"
#include "compiler/reflect/attributes.h"
#include "compiler/reflect/flatten.h"
#include "compiler/reflect/host_signature.h"
#include "compiler/reflect/parameter_texts.h"
#include "compiler/reflect/type_names.h"
#include "compiler/reflect/types.h"
#include "compiler/slang/com.h"
#include "compiler/slang/library.h"

namespace torch_slang {
namespace {

using slang::DeclReflection;
using slang::FunctionReflection;
using slang::GenericReflection;
using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

// The namespaces and types around a declaration.
struct Scope {
  std::vector<std::string> names;          // of namespaces and structs
  TypeReflection* owner = nullptr;         // the struct, where functions are methods
  std::vector<DeclReflection*> generics;   // whose parameters are in scope, outermost first
};

// Not functions that Slang makes, or asks for: constructors and derivatives of types have a `$` in their names, operators
// are no words.
bool is_callable_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), is_word);
}

bool is_of_differentials(const std::string& name) { return name == "dzero" || name == "dadd"; }

std::string declared_name(DeclReflection* declaration) {
  const char* name = declaration->getName();
  return name == nullptr ? "" : name;
}

class ModuleDescriber {
 public:
  ModuleDescriber(slang::ISession* session, slang::ShaderReflection* layout, std::string file,
                  const SourceOf& source_of)
      : session_(session), layout_(layout), file_(std::move(file)), source_of_(source_of) {}

  std::vector<DescribedFunction> all(DeclReflection* module) {
    for (DeclReflection* child : module->getChildren()) walk(child, child, {});
    refuse_inheritance();
    leave_out_hidden_methods();
    name_overloads();
    return std::move(found_);
  }

 private:
  // `outer`: the declaration, or the generic one around it.
  void walk(DeclReflection* declaration, DeclReflection* outer, Scope scope) {
    switch (declaration->getKind()) {
      case DeclReflection::Kind::Namespace: walk_inside(declaration, std::move(scope)); break;
      case DeclReflection::Kind::Struct:
        scope.owner = declaration->getType();
        if (scope.owner != nullptr) walk_inside(declaration, std::move(scope));
        break;
      case DeclReflection::Kind::Func: add(outer, declaration->asFunction(), scope); break;
      case DeclReflection::Kind::Generic:
        scope.generics.push_back(declaration);
        if (DeclReflection* inner = declaration->asGeneric()->getInnerDecl())
          walk(inner, declaration, std::move(scope));
        break;
      case DeclReflection::Kind::Unsupported:
        if (is_included_file(declaration)) {
          for (DeclReflection* child : declaration->getChildren()) walk(child, child, scope);
        }
        break;
      default: break;
    }
  }

  // What a module has from an `__include` stands in a declaration of the module's without a place, which has the file's name.
  bool is_included_file(DeclReflection* declaration) const {
    DeclReflection* parent = declaration->getParent();
    if (parent == nullptr || parent->getKind() != DeclReflection::Kind::Module) return false;
    slang::SourceLocation location;
    return !declared_name(declaration).empty() && SLANG_FAILED(session_->getDeclSourceLocation(declaration, &location));
  }

  void walk_inside(DeclReflection* parent, Scope scope) {
    scope.names.push_back(declared_name(parent));
    for (DeclReflection* child : parent->getChildren()) walk(child, child, scope);
  }

  void add(DeclReflection* declaration, FunctionReflection* reflection, const Scope& scope) {
    const bool is_constructor = std::string_view(reflection->getName()) == "$init";
    if (is_constructor && !is_written_constructor(declaration, scope)) return;
    if (find_attribute(reflection, "TorchSlangTreated") != nullptr) return;  // Note [constant calls]
    const std::string name = is_constructor ? "__init" : reflection->getName();
    if (!is_callable_name(name) || (scope.owner != nullptr && is_of_differentials(name))) return;
    DescribedFunction described;
    Function& function = described.function;
    for (const std::string& part : scope.names) {
      function.name += part + "_";
      function.qualified_name += part + ".";
    }
    function.name += name;
    function.qualified_name += name;
    described.call.name = is_constructor           ? name_of(scope.owner)
                          : scope.owner == nullptr ? function.qualified_name
                                                   : name;
    described.shares_name = is_constructor;
    function.file = file_;
    slang::SourceLocation location;
    if (SLANG_SUCCEEDED(session_->getDeclSourceLocation(declaration, &location))) {
      function.line = static_cast<int>(location.line);
      if (location.filePath != nullptr) function.file = location.filePath;
    }
    read_attributes(function, reflection);
    if (function.is_kernel() && scope.owner != nullptr) return;
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i)
      described.parameter_types.push_back(name_of(reflection->getParameterByIndex(i)->getType()));
    try {
      fill(described, reflection, is_constructor ? Scope{scope.names, nullptr, scope.generics} : scope);
    } catch (const Refusal& refusal) {
      function.refusal = refusal.reason;
    }
    if (scope.owner != nullptr) methods_.insert(found_.size());
    found_.push_back(std::move(described));
  }

  // Slang makes constructors too, for all structs: those that stand in the source count, of structs that are not generic.
  bool is_written_constructor(DeclReflection* declaration, const Scope& scope) const {
    slang::SourceLocation location;
    if (scope.owner == nullptr || !scope.generics.empty() ||
        SLANG_FAILED(session_->getDeclSourceLocation(declaration, &location)) || location.filePath == nullptr)
      return false;
    const SourceCode* source = source_of_(location.filePath);
    if (source == nullptr) return false;
    const size_t begin = source->first_from_line(location.line), end = source->first_from_line(location.line + 1);
    for (size_t at = begin; at < end; ++at) {
      if ((*source)[at] == "__init") return true;
    }
    return false;
  }

  void fill(DescribedFunction& described, FunctionReflection* reflection, const Scope& scope) {
    Function& function = described.function;
    if (find_attribute(reflection, "TorchSlangHostHelper") != nullptr) refuse("it is a [CudaHost] function");
    if (find_attribute(reflection, "TorchSlangHost") != nullptr) {
      described.host.emplace();
      if (!scope.generics.empty()) refuse("it is generic, but a function that Python calls must have concrete types");
      describe_host_function(function, *described.host, reflection, TypeReader(layout_, {}, {}));
      return;
    }
    if (!function.is_kernel()) refuse_promises(reflection);
    const bool differentiable = link_derivatives(function, reflection);
    const TypeReader types = read_generics(described, scope);
    if (scope.names.empty()) read_name(described);
    const std::vector<ParameterText> texts = parameter_texts_of(function, reflection);
    if (!function.is_kernel()) {
      describe_elementwise_function(function, described.call, reflection, scope.owner, texts, types, differentiable);
      return;
    }
    if (name_of(reflection->getReturnType()) != "void") {
      refuse("a kernel returns nothing, but this one returns ", name_of(reflection->getReturnType()),
             "; write results through a TensorView or DiffTensorView parameter");
    }
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
      VariableReflection* variable = reflection->getParameterByIndex(i);
      add_parameter(function, variable, texts[i].default_value, types, differentiable);
      TypeReflection* type = variable->getType();
      described.paired.push_back(types.viewed(type) == nullptr && variable->findModifier(Modifier::NoDiff) == nullptr &&
                                 types.is_differentiable(type));
    }
  }

  // What else has the name of a function that stands in no namespace and in no struct.
  void read_name(DescribedFunction& described) const {
    const std::string& name = described.function.qualified_name;
    if (name.starts_with("tsl_") || name.starts_with("__tsl_")) {
      refuse("names that begin with tsl_ or __tsl_, as ", name, " does, are torch_slang's own; rename it");
    }
    for (const std::string& type : types_called(described)) {
      if (layout_->findTypeByName(type.c_str()) == nullptr) continue;
      refuse(name, " is the name of a type too, so a call of it would be a conversion; rename it");
    }
    FunctionReflection* all = layout_->findFunctionByName(name.c_str());
    described.shares_name = all == nullptr || all->isOverloaded();
  }

  // The types whose constructor a call of this function's name may be: the type of that name, alone or with generic
  // arguments; it may have further ones, with defaults.
  static std::vector<std::string> types_called(const DescribedFunction& described) {
    const Function& function = described.function;
    std::string list;
    for (const std::string& argument : described.call.generic_arguments) {
      const auto& types = function.type_parameters;
      const bool is_type =
          std::any_of(types.begin(), types.end(), [&](const TypeParameter& type) { return type.name == argument; });
      list += (list.empty() ? "" : ", ") + std::string(is_type ? "float" : "1");
    }
    const std::string& name = function.qualified_name;
    if (list.empty()) return {name};
    return {name, name + "<" + list + ">", name + "<" + list + ", 1>", name + "<" + list + ", 1, 1>"};
  }

  std::vector<ParameterText> parameter_texts_of(const Function& function, FunctionReflection* reflection) const {
    const unsigned count = reflection->getParameterCount();
    std::vector<ParameterText> texts;
    const SourceCode* source = source_of_(function.file);
    for (unsigned i = 0; source != nullptr && i < count && texts.empty(); ++i) {
      VariableReflection* variable = reflection->getParameterByIndex(i);
      if (variable->hasDefaultValue() || variable->findModifier(Modifier::NoDiff) != nullptr)
        texts = parameter_texts(*source, function.line, reflection->getName());
    }
    if (texts.size() != count) texts.assign(count, {});
    return texts;
  }

  static void read_attributes(Function& function, FunctionReflection* reflection) {
    function.torch_op = find_attribute(reflection, "TorchOp") != nullptr;
    const auto marks = {"TorchSlangKernel", "PyBindCUDA", "PyBindCUDAFwdDiff", "PyBindCUDABwdDiff"};
    const bool is_kernel = std::any_of(marks.begin(), marks.end(),
                                       [&](const char* name) { return find_attribute(reflection, name) != nullptr; });
    if (!is_kernel) function.kind.emplace<PlainFunction>();
    if (is_kernel) read_launch(function.kernel(), reflection);
  }

  static void read_launch(KernelFunction& kernel, FunctionReflection* reflection) {
    kernel.launch_total = find_string_attribute(reflection, "LaunchTotal");
    kernel.parallel = find_string_attribute(reflection, "Parallel");
    if (slang::Attribute* block = find_attribute(reflection, "BlockSize")) {
      for (unsigned i = 0; i < 3; ++i) kernel.block_size.push_back(int_argument(block, i));
    }
    for (unsigned i = 0; i < reflection->getUserAttributeCount(); ++i) {
      slang::Attribute* attribute = reflection->getUserAttributeByIndex(i);
      if (std::string(attribute->getName()) != "Tune") continue;
      kernel.tune.emplace_back(string_argument(attribute, 0), string_argument(attribute, 1));
    }
  }

  // [Differentiable] links both derivatives, unless the explicit attributes choose. [ForwardDifferentiable] has no
  // backward; of a function with a [BackwardDerivative] alone Slang would make a forward derivative of zeros.
  static bool link_derivatives(Function& function, FunctionReflection* reflection) {
    const auto has = [&](const char* name) { return find_attribute(reflection, name) != nullptr; };
    const bool differentiable = reflection->findModifier(Modifier::Differentiable) != nullptr;
    const bool has_forward = differentiable && (!has("TorchSlangOwnBackward") || has("TorchSlangOwnForward"));
    const bool has_backward = differentiable && !has("TorchSlangForwardOnly");
    const bool chosen = has("PyBindCUDAFwdDiff") || has("PyBindCUDABwdDiff");
    function.has_backward = has_backward && (!chosen || has("PyBindCUDABwdDiff"));
    function.has_forward_derivative = has_forward && (!chosen || has("PyBindCUDAFwdDiff"));
    return differentiable;
  }

  // What says something of a kernel's calls.
  static void refuse_promises(FunctionReflection* reflection) {
    if (slang::Attribute* tune = find_attribute(reflection, "Tune")) {
      refuse("[Tune] is for kernels, and this is a plain function: no value but the first of ",
             string_argument(tune, 0), " would be tried. Put it on a kernel, or give the value among the defines");
    }
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
      VariableReflection* variable = reflection->getParameterByIndex(i);
      if (find_attribute(variable, "MultipleOf") == nullptr) continue;
      refuse("parameter ", variable->getName(), " has the attribute MultipleOf, which is for parameters of kernels");
    }
  }

  TypeReader read_generics(DescribedFunction& described, const Scope& scope) {
    Function& function = described.function;
    std::vector<std::string> names;
    std::vector<bool> differentiable;
    for (DeclReflection* declaration : scope.generics) {
      GenericReflection* generic = declaration->asGeneric();
      for (unsigned i = 0; i < generic->getTypeParameterCount(); ++i) {
        differentiable.push_back(add_type_parameter(function, generic, generic->getTypeParameter(i)));
        names.push_back(function.type_parameters.back().name);
      }
      for (unsigned i = 0; i < generic->getValueParameterCount(); ++i) {
        add_size_parameter(function, generic->getValueParameter(i));
      }
    }
    const bool own_generic =
        !scope.generics.empty() && scope.generics.back()->asGeneric()->getInnerKind() == SLANG_DECL_KIND_FUNC;
    if (own_generic) described.call.generic_arguments = parameters_in_order(scope.generics.back());
    return {layout_, names, differentiable,
            function.is_kernel() ? std::vector<std::string>() : function.plain().size_parameters};
  }

  // Whether it is differentiable.
  bool add_type_parameter(Function& function, GenericReflection* generic, VariableReflection* parameter) const {
    std::vector<TypeReflection*> constraints;
    bool differentiable = false;
    for (unsigned k = 0; k < generic->getTypeParameterConstraintCount(parameter); ++k) {
      constraints.push_back(generic->getTypeParameterConstraintType(parameter, k));
      differentiable =
          differentiable || conforms(layout_, constraints.back(), layout_->findTypeByName("IDifferentiable"));
    }
    function.type_parameters.push_back({parameter->getName(), TypeReader(layout_, {}, {}).allowed(constraints)});
    return differentiable;
  }

  static void add_size_parameter(Function& function, VariableReflection* parameter) {
    const std::string name = parameter->getName();
    if (function.is_kernel()) {
      refuse("it is generic over the value ", name, "; an operator may be generic over types alone");
    }
    const std::string type = name_of(parameter->getType());
    if (type != "int" && type != "uint") {
      refuse("its generic parameter ", name, " is a ", type,
             ", but values that it is generic over must be sizes: int or uint");
    }
    function.plain().size_parameters.push_back(name);
  }

  // Reflection lists types and values apart; the declaration has both in order.
  static std::vector<std::string> parameters_in_order(DeclReflection* declaration) {
    GenericReflection* generic = declaration->asGeneric();
    std::set<std::string> names;
    for (unsigned i = 0; i < generic->getTypeParameterCount(); ++i)
      names.insert(generic->getTypeParameter(i)->getName());
    for (unsigned i = 0; i < generic->getValueParameterCount(); ++i)
      names.insert(generic->getValueParameter(i)->getName());
    std::vector<std::string> ordered;
    for (DeclReflection* child : declaration->getChildren()) {
      if (names.erase(declared_name(child)) > 0) ordered.push_back(declared_name(child));
    }
    return ordered;
  }

  // Reflection leaves out the fields that a struct has from another one.
  void refuse_inheritance() {
    std::vector<TypeReflection*> structs;
    for (SlangInt i = 0; i < session_->getLoadedModuleCount(); ++i) {
      slang::IModule* module = session_->getLoadedModule(i);
      if (std::string_view(module->getName()) != kLibraryModule) add_structs(module->getModuleReflection(), structs);
    }
    std::map<std::string, std::string> bases;
    for (TypeReflection* type : structs) {
      for (TypeReflection* other : structs) {
        if (name_of(type) != name_of(other) && conforms(layout_, type, other)) bases[name_of(type)] = name_of(other);
      }
    }
    if (bases.empty()) return;
    for (DescribedFunction& one : found_) {
      Function& function = one.function;
      for (const Parameter& tree : function.parameters) refuse_inheriting(tree, bases, function.refusal);
      if (function.is_kernel()) continue;
      for (const Parameter& tree : function.plain().results) refuse_inheriting(tree, bases, function.refusal);
    }
  }

  static void add_structs(DeclReflection* parent, std::vector<TypeReflection*>& structs) {
    if (parent == nullptr) return;
    for (DeclReflection* child : parent->getChildren()) {
      const bool is_struct = child->getKind() == DeclReflection::Kind::Struct;
      if (is_struct && child->getType() != nullptr) structs.push_back(child->getType());
      if (is_struct || child->getKind() == DeclReflection::Kind::Namespace) add_structs(child, structs);
    }
  }

  static void refuse_inheriting(const Parameter& tree, const std::map<std::string, std::string>& bases,
                                std::string& refusal) {
    const auto found = bases.find(tree.slang_type);
    if (found != bases.end() && refusal.empty()) {
      refusal = c10::str(tree.name, " is a ", tree.slang_type, ", which inherits from the struct ", found->second,
                         ": Slang does not show inherited fields, so make that a field");
    }
    for (const Parameter& field : tree.fields) refuse_inheriting(field, bases, refusal);
  }

  // A function or kernel goes before the method of a struct that would have its name.
  void leave_out_hidden_methods() {
    std::set<std::string> taken;
    for (size_t i = 0; i < found_.size(); ++i) {
      if (methods_.count(i) == 0) taken.insert(found_[i].function.name);
    }
    std::vector<DescribedFunction> kept;
    for (size_t i = 0; i < found_.size(); ++i) {
      if (methods_.count(i) == 0 || taken.count(found_[i].function.name) == 0) kept.push_back(std::move(found_[i]));
    }
    found_ = std::move(kept);
  }

  // Plain functions of one name are functions of their own, called by their parameters' types: blend(float3, float) is
  // blend_float3_float. Kernels may not share a name.
  void name_overloads() {
    std::map<std::string, std::vector<DescribedFunction*>> groups;
    std::set<std::string> taken;
    for (DescribedFunction& one : found_) {
      groups[one.function.name].push_back(&one);
      taken.insert(one.function.name);
    }
    for (auto& [name, group] : groups) {
      if (group.size() == 1) continue;
      const bool are_plain = std::all_of(group.begin(), group.end(), [](const DescribedFunction* one) {
        return !one->function.is_kernel() && !one->host;
      });
      for (DescribedFunction* one : group) {
        if (!are_plain) {
          one->function.refusal =
              c10::str("there are several functions ", name, " and a kernel can have no overloads; rename the others");
          continue;
        }
        one->function.plain().overloaded = name;
        one->function.name = name + "_" + types_as_name(one->parameter_types);
        while (!taken.insert(one->function.name).second) one->function.name += "_";
        one->shares_name = true;
      }
    }
  }

  slang::ISession* session_;
  slang::ShaderReflection* layout_;
  std::string file_;
  const SourceOf& source_of_;
  std::vector<DescribedFunction> found_;
  std::set<size_t> methods_;  // indices into found_
};

}  // namespace

std::vector<DescribedFunction> describe_module(slang::ISession* session, slang::IModule* module,
                                               const std::string& file, const SourceOf& source_of) {
  Com<ISlangBlob> diagnostics;
  slang::ShaderReflection* layout = module->getLayout(0, diagnostics.out());
  TORCH_CHECK(layout != nullptr, "torch-slangc: no reflection of ", file, "\n", text_of(diagnostics.get()));
  return ModuleDescriber(session, layout, file, source_of).all(module->getModuleReflection());
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
