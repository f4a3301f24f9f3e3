#include "compiler/reflect/own_derivatives.h"

#include <algorithm>

#include "common/identifiers.h"
#include "compiler/reflect/attributes.h"
#include "compiler/slang/com.h"
#include "compiler/slang/library.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

using slang::DeclReflection;
using slang::FunctionReflection;

// `name` of `outer.name<T>`.
std::string last_name(std::string_view text) {
  std::string name;
  int depth = 0;
  for (const Token& token : split_tokens(text)) {
    depth += token.text == "<" ? 1 : token.text == ">" ? -1 : 0;
    if (depth == 0 && token.kind == TokenKind::Identifier) name = token.text;
  }
  return name;
}

// A function that is the derivative of the one of this name.
struct DerivativeOf {
  std::string name;
  FunctionReflection* function;
};

// The types of parameters; of `DifferentialPair<T>` T, and that it is one.
struct ParameterType {
  std::string primal;
  bool is_pair;
};

std::vector<ParameterType> parameter_types(FunctionReflection* function) {
  constexpr std::string_view kPair = "DifferentialPair<";
  std::vector<ParameterType> types;
  for (unsigned i = 0; i < function->getParameterCount(); ++i) {
    Com<ISlangBlob> blob;
    function->getParameterByIndex(i)->getType()->getFullName(blob.out());
    const std::string name = text_of(blob.get());
    const bool is_pair = name.starts_with(kPair);
    types.push_back({is_pair ? name.substr(kPair.size(), name.size() - kPair.size() - 1) : name, is_pair});
  }
  return types;
}

// Whether the forward derivative may be of the function that these parameters are of: of a backward, its own and the result's
// gradient. An `out` parameter has its gradient's type there.
bool fits(FunctionReflection* forward, const std::vector<ParameterType>& others, bool are_of_backward) {
  const std::vector<ParameterType> types = parameter_types(forward);
  if (others.size() != types.size() && !(are_of_backward && others.size() == types.size() + 1)) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_gradient = are_of_backward && types[i].is_pair && !others[i].is_pair;
    if (!is_gradient && types[i].primal != others[i].primal) return false;
  }
  return true;
}

// What the user's modules say of derivatives.
class OwnDerivatives {
 public:
  explicit OwnDerivatives(slang::ISession* session) {
    for (SlangInt i = 0; i < session->getLoadedModuleCount(); ++i) {
      slang::IModule* module = session->getLoadedModule(i);
      if (std::string_view(module->getName()) == kLibraryModule) continue;
      if (DeclReflection* declarations = module->getModuleReflection()) visit_children(declarations);
    }
  }

  std::set<std::string> backward_only() const {
    std::set<std::string> found;
    for (FunctionReflection* function : backward_only_) {
      if (!has_forward_of(name_of(function), parameter_types(function), false)) found.insert(name_of(function));
    }
    for (const DerivativeOf& one : backward_of_) {
      if (!has_forward_of(one.name, parameter_types(one.function), true)) found.insert(one.name);
    }
    return found;
  }

  std::vector<std::pair<std::string, std::string>> forwards() const {
    std::vector<std::pair<std::string, std::string>> all = forwards_;
    for (const DerivativeOf& one : forward_of_) all.emplace_back(one.name, name_of(one.function));
    return all;
  }

  std::set<std::string> all() const {
    std::set<std::string> found;
    for (FunctionReflection* function : with_backward_) found.insert(name_of(function));
    for (const DerivativeOf& one : backward_of_) found.insert(one.name);
    for (const auto& [name, forward] : forwards()) found.insert(name);
    return found;
  }

 private:
  static std::string name_of(FunctionReflection* function) {
    const char* name = function->getName();
    return name == nullptr ? "" : name;
  }

  // Types, extensions and namespaces have functions in them.
  void visit_children(DeclReflection* declaration) {
    for (DeclReflection* child : declaration->getChildren()) visit(child);
  }

  void visit(DeclReflection* declaration) {
    switch (declaration->getKind()) {
      case DeclReflection::Kind::Func: visit_function(declaration->asFunction()); break;
      case DeclReflection::Kind::Generic:
        if (DeclReflection* inner = declaration->asGeneric()->getInnerDecl()) visit(inner);
        break;
      default: visit_children(declaration);
    }
  }

  void visit_function(FunctionReflection* function) {
    if (function == nullptr) return;
    bool has_forward = false, has_backward = false;
    for (unsigned i = 0; i < function->getUserAttributeCount(); ++i) {
      slang::Attribute* attribute = function->getUserAttributeByIndex(i);
      const std::string_view kind = attribute->getName();
      if (kind == "TorchSlangOwnBackward") has_backward = true;
      if (kind == "TorchSlangForwardOf") forward_of_.push_back({last_name(string_argument(attribute, 0)), function});
      if (kind == "TorchSlangForwardOnly") has_forward = true;  // Slang derives it
      if (kind == "TorchSlangBackwardOf") backward_of_.push_back({last_name(string_argument(attribute, 0)), function});
      if (kind != "TorchSlangOwnForward") continue;
      has_forward = true;
      forwards_.emplace_back(name_of(function), last_name(string_argument(attribute, 0)));
      with_forward_.push_back(function);
    }
    if (has_backward) with_backward_.push_back(function);
    if (has_backward && !has_forward) backward_only_.push_back(function);
  }

  bool has_forward_of(const std::string& name, const std::vector<ParameterType>& types, bool are_of_backward) const {
    const auto is_one = [&](const DerivativeOf& one) {
      return one.name == name && fits(one.function, types, are_of_backward);
    };
    const auto has_one = [&](FunctionReflection* function) {
      return name_of(function) == name && has_own_forward(function, types);
    };
    return std::ranges::any_of(forward_of_, is_one) || (are_of_backward && std::ranges::any_of(with_forward_, has_one));
  }

  // A function with a forward derivative beside it, of which `types` are those of the backward.
  static bool has_own_forward(FunctionReflection* function, const std::vector<ParameterType>& types) {
    const std::vector<ParameterType> own = parameter_types(function);
    if (types.size() != own.size() && types.size() != own.size() + 1) return false;
    for (size_t i = 0; i < own.size(); ++i) {
      if (types[i].is_pair && types[i].primal != own[i].primal) return false;
    }
    return true;
  }

  std::vector<FunctionReflection*> backward_only_, with_backward_, with_forward_;
  std::vector<DerivativeOf> forward_of_, backward_of_;
  std::vector<std::pair<std::string, std::string>> forwards_;
};

bool is_identifier(const std::string& name) { return !name.empty() && std::all_of(name.begin(), name.end(), is_word); }

}  // namespace

std::set<std::string> backward_only_functions(slang::ISession* session) {
  return OwnDerivatives(session).backward_only();
}

std::vector<std::pair<std::string, std::string>> own_forward_derivatives(slang::ISession* session) {
  return OwnDerivatives(session).forwards();
}

std::set<std::string> functions_with_own_derivatives(slang::ISession* session) { return OwnDerivatives(session).all(); }

bool may_have_constants(const NameSet& names) {
  constexpr std::string_view kWords[] = {"no_diff", "detach",           "TreatAsDifferentiable", "NoDiffThis",
                                         "primal",  "PrimalSubstitute", "PrimalSubstituteOf"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return names.count(word) > 0; });
}

bool may_hide_calls(const NameSet& names) {
  return names.count(std::string_view("ForceInline")) > 0 ||
         names.count(std::string_view("__unsafeForceInlineEarly")) > 0;
}

bool may_call(const Code& emitted, const std::string& name) {
  if (!is_identifier(name)) return true;
  for (size_t at = 0; at < emitted.size(); ++at) {
    // A field may have the function's name.
    if (!emitted.is_name(at) || !is_numbered(emitted[at]) || emitted[at + 1] != "(") continue;
    const std::string_view stem = emitted[at].substr(0, emitted[at].rfind('_'));
    if (stem == name || stem.ends_with("_" + name)) return true;
  }
  return false;
}

}  // namespace torch_slang
