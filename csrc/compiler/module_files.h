// The texts of the modules whose functions a request gives: its own file, and the files of modules that it imports.
#pragma once

#include <string>

#include "compiler/source/session.h"

namespace torch_slang {

// `import`: the path of an imported module's file; empty: the request's own.
class ModuleFiles {
 public:
  ModuleFiles(const CompileRequest& request, Session& session) : request_(request), session_(session) {}

  std::string path(const std::string& import) const { return import.empty() ? request_.path : import; }
  std::string text(const std::string& import) const;

  // The module with more text behind it. A session takes a name and a path once, so each copy has its own, in the
  // module's folder; no name is one that an import may ask for.
  ModuleSource next_copy(const std::string& text, const std::string& import = {});

 private:
  const CompileRequest& request_;
  Session& session_;
  int copies_ = 0;
};

}  // namespace torch_slang
