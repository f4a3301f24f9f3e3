#include "compiler/declared_module.h"

#include <c10/util/StringUtil.h>

#include <utility>

namespace torch_slang {

slang::IModule* DeclaredModule::load(const Load& load, std::string* diagnostics) {
  SourceFiles& files = session_.files();
  slang::IModule* module = load_knowing_files(load, diagnostics);
  const std::string said = module == nullptr ? *diagnostics : "";
  while (module == nullptr && session_.differentiates_more(request_, *diagnostics)) {
    module = load_knowing_files(load, diagnostics);
  }
  if (module == nullptr && session_.differentiates_none(request_)) module = load_knowing_files(load, diagnostics);
  for (int attempts = 0; module == nullptr && files.has_declared() && files.refusal().empty(); ++attempts) {
    declare_less(*diagnostics, attempts < 3);
    module = load_knowing_files(load, diagnostics);
  }
  (module == nullptr ? *diagnostics : why_undeclared_) = said;
  return module;
}

// Anew, until no file that it reads changes how others are to be read.
slang::IModule* DeclaredModule::load_knowing_files(const Load& load, std::string* diagnostics) {
  slang::IModule* module = nullptr;
  for (bool again = true; again;) {
    module = load(diagnostics);
    again = session_.gives_way(request_) || session_.declares_more(request_) ||
            (module == nullptr && session_.imports_functions(request_, *diagnostics));
  }
  return module;
}

// `by_name`: without the structs that the diagnostics name, if there are any.
void DeclaredModule::declare_less(const std::string& diagnostics, bool by_name) {
  const SourceFiles& files = session_.files();
  const UndeclaredStructs structs = files.structs();
  Names kept = files.kept_structs(), named;
  add_code_names(diagnostics, named);
  for (const std::string& name : structs.declared()) {
    if (named.count(name) > 0) kept.insert(name);
  }
  const bool goes_on = by_name && kept.size() > files.kept_structs().size();
  const Declaring less = files.declaring() == Declaring::All ? Declaring::Structs : Declaring::None;
  session_.declare(request_, goes_on ? files.declaring() : less, goes_on ? std::move(kept) : Names());
}

std::optional<std::string> DeclaredModule::why_lost(const std::string& qualified_name) const {
  const SourceFiles& files = session_.files();
  const auto lost = files.structs().lost_in(qualified_name, files.declaring());
  if (!lost) return std::nullopt;
  const auto& [type, place] = *lost;
  return c10::str(
      "the struct ", type, " (", place,
      ") is not IDifferentiable, and what is put into it loses its derivative; declare it, `struct ", type,
      " : IDifferentiable`, outside of functions, without a base struct, and without tensors where a kernel ",
      "has it as parameter",
      why_undeclared_.empty() ? "" : ". Declared so the file does not compile:\n" + why_undeclared_);
}

}  // namespace torch_slang
