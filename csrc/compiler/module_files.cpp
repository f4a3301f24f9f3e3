#include "compiler/module_files.h"

#include <filesystem>

namespace torch_slang {

std::string ModuleFiles::text(const std::string& import) const {
  if (import.empty() && request_.source) return *request_.source;
  return session_.files().read_or_throw(path(import));
}

std::string ModuleFiles::source_of(const std::string& file) const {
  if (file == request_.path && request_.source) return *request_.source;
  const auto& contents = session_.files().contents();
  const auto found = contents.find(file);
  return found == contents.end() ? std::string() : found->second->text();
}

ModuleSource ModuleFiles::next_copy(const std::string& text, const std::string& import) {
  const std::string suffix = "_torch_slang_" + std::to_string(++copies_);
  return {std::filesystem::path(path(import)).stem().string() + suffix, path(import) + suffix, text + "\n"};
}

}  // namespace torch_slang
