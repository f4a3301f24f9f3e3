#include "compiler/module_files.h"

#include <filesystem>

namespace torch_slang {

std::string ModuleFiles::text(const std::string& import) const {
  if (import.empty() && request_.source) return *request_.source;
  return session_.files().read_or_throw(path(import));
}

ModuleSource ModuleFiles::next_copy(const std::string& text, const std::string& import) {
  const std::string suffix = "_torch_slang_" + std::to_string(++copies_);
  return {std::filesystem::path(path(import)).stem().string() + suffix, path(import) + suffix, text + "\n"};
}

}  // namespace torch_slang
