// Loads a module with as many of its structs declared IDifferentiable as can be: Note [undeclared structs] in
// source/undeclared_structs.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/source/session.h"

namespace torch_slang {

class DeclaredModule {
 public:
  DeclaredModule(Session& session, const CompileRequest& request) : session_(session), request_(request) {}

  using Load = std::function<slang::IModule*(std::string*)>;
  // `load`: loads the module as the session's files now say. Null if it does not compile in any way; `diagnostics` is then what
  // Slang said at first.
  slang::IModule* load(const Load& load, std::string* diagnostics);

  // Why a derivative of the function would be wrong, if a struct that is not declared is in it.
  std::optional<std::string> why_lost(const std::string& qualified_name) const;

 private:
  slang::IModule* load_knowing_files(const Load& load, std::string* diagnostics);
  void declare_less(const std::string& diagnostics, bool by_name);

  Session& session_;
  const CompileRequest& request_;
  std::string why_undeclared_;  // what Slang said where structs were declared that are not
};

}  // namespace torch_slang
