#include "compiler/reflect/imported_functions.h"

#include <c10/util/StringUtil.h>

#include <map>
#include <set>

#include "compiler/source/visible_names.h"

namespace torch_slang {
namespace {

// As users call it: an overload by the name that it shares.
const std::string& called(const Function& function) {
  return function.is_kernel() || function.plain().overloaded.empty() ? function.name : function.plain().overloaded;
}

std::string unqualified(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// `source`: of its file; null where there is none, as of a compiled module.
bool is_wanted(const DescribedFunction& described, const SourceCode* source) {
  const Function& function = described.function;
  if (described.host || function.name.starts_with("__")) return false;
  if (function.is_kernel() || source == nullptr) return true;
  return VisibleNames(*source).is_public(unqualified(function.qualified_name), function.line);
}

}  // namespace

void add_imported_functions(std::vector<DescribedFunction>& functions, slang::ISession* session,
                            const std::vector<Session::Import>& imports, const SourceOf& source_of) {
  std::set<std::string> own;
  for (const DescribedFunction& one : functions) own.insert({one.function.name, called(one.function)});
  std::map<std::string, std::pair<size_t, std::string>> imported;  // by name: the first that has it, and its module
  for (const Session::Import& import : imports) {
    for (DescribedFunction& one : describe_module(session, import.module, import.path, source_of)) {
      const Function& function = one.function;
      if (own.count(called(function)) > 0 || own.count(function.name) > 0) continue;
      if (!is_wanted(one, source_of(function.file))) continue;
      const auto [known, is_new] = imported.try_emplace(function.name, functions.size(), import.path);
      if (is_new) {
        one.imported_from = import.path;
        functions.push_back(std::move(one));
      } else if (known->second.second != import.path) {
        functions[known->second.first].function.refusal =
            c10::str("the imported files ", known->second.second, " and ", import.path, " both have a ", function.name,
                     ": rename one, or load the file that is meant");
      }
    }
  }
}

}  // namespace torch_slang
