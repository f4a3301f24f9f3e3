#include "compiler/reflect/own_derivatives.h"

#include <algorithm>

#include "common/identifiers.h"
#include "compiler/reflect/attributes.h"
#include "compiler/slang/library.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

using slang::DeclReflection;
using slang::FunctionReflection;

void visit(DeclReflection* declaration, std::set<std::string>& found);

void visit_function(FunctionReflection* function, std::set<std::string>& found) {
  if (function == nullptr || find_attribute(function, "TorchSlangOwnBackward") == nullptr) return;
  if (find_attribute(function, "TorchSlangOwnForward") != nullptr) return;
  const char* name = function->getName();
  found.insert(name == nullptr ? "" : name);
}

// Types, extensions and namespaces have functions in them.
void visit_children(DeclReflection* declaration, std::set<std::string>& found) {
  for (DeclReflection* child : declaration->getChildren()) visit(child, found);
}

void visit(DeclReflection* declaration, std::set<std::string>& found) {
  switch (declaration->getKind()) {
    case DeclReflection::Kind::Func: visit_function(declaration->asFunction(), found); break;
    case DeclReflection::Kind::Generic:
      if (DeclReflection* inner = declaration->asGeneric()->getInnerDecl()) visit(inner, found);
      break;
    default: visit_children(declaration, found);
  }
}

bool is_identifier(const std::string& name) { return !name.empty() && std::all_of(name.begin(), name.end(), is_word); }

}  // namespace

std::set<std::string> backward_only_functions(slang::ISession* session) {
  std::set<std::string> found;
  for (SlangInt i = 0; i < session->getLoadedModuleCount(); ++i) {
    slang::IModule* module = session->getLoadedModule(i);
    if (std::string_view(module->getName()) == kLibraryModule) continue;
    if (DeclReflection* declarations = module->getModuleReflection()) visit_children(declarations, found);
  }
  return found;
}

bool may_hide_derivatives(const NameSet& names) {
  for (const char* name : {"ForceInline", "__unsafeForceInlineEarly", "BackwardDerivativeOf"}) {
    if (names.count(std::string_view(name)) > 0) return true;
  }
  return false;
}

bool may_call(std::string_view emitted, const std::string& name) {
  if (!is_identifier(name)) return true;
  std::string_view before;  // the last token of code, if it is a name: a field may have the function's
  for (const Token& token : split_tokens(emitted)) {
    if (!is_code(token)) continue;
    if (token.text == "(" && is_numbered(before)) {
      const std::string_view stem = before.substr(0, before.rfind('_'));
      if (stem == name || stem.ends_with("_" + name)) return true;
    }
    before = token.kind == TokenKind::Identifier ? token.text : std::string_view();
  }
  return false;
}

}  // namespace torch_slang
