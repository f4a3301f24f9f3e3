#include "compiler/describe.h"

#include <c10/util/StringUtil.h>

#include <set>

#include "compiler/attributes.h"
#include "compiler/com.h"
#include "compiler/flatten.h"
#include "compiler/host_signature.h"
#include "compiler/types.h"

namespace torch_slang {
namespace {

using slang::DeclReflection;
using slang::FunctionReflection;
using slang::GenericReflection;
using slang::Modifier;
using slang::TypeReflection;
using slang::VariableReflection;

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
        case DeclReflection::Kind::Func: add(child, child->asFunction(), nullptr, scope); break;
        case DeclReflection::Kind::Generic: {
          GenericReflection* generic = child->asGeneric();
          if (generic->getInnerKind() == SLANG_DECL_KIND_FUNC) {
            add(child, generic->getInnerDecl()->asFunction(), generic, scope);
          }
          break;
        }
        default: break;
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
    if (find_attribute(reflection, "TorchSlangHostHelper") != nullptr) refuse("it is a [CudaHost] function");
    if (find_attribute(reflection, "TorchSlangHost") != nullptr) {
      described.host.emplace();
      if (generic != nullptr) refuse("it is generic, but what Python calls has concrete types");
      describe_host_function(function, *described.host, reflection, TypeReader(layout_, {}, {}));
      return;
    }
    const bool differentiable = link_derivatives(function, reflection);
    const TypeReader types = read_type_parameters(function, generic);
    if (function.is_kernel && name_of(reflection->getReturnType()) != "void") {
      refuse("a kernel returns nothing, but this one returns ", name_of(reflection->getReturnType()),
             "; write results through a TensorView or DiffTensorView parameter");
    }
    for (unsigned i = 0; i < reflection->getParameterCount(); ++i) {
      VariableReflection* variable = reflection->getParameterByIndex(i);
      add_parameter(function, variable, types, differentiable);
      TypeReflection* type = variable->getType();
      described.paired.push_back(types.viewed(type) == nullptr && variable->findModifier(Modifier::NoDiff) == nullptr &&
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
