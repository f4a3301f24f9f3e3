#include "compiler/source/included_files.h"

#include <set>

#include "common/files.h"
#include "compiler/source/directives.h"

namespace torch_slang {
std::string IncludedFiles::find(const std::string& name, const std::string& from, bool in_quotes) const {
  if (name.starts_with("/")) return name;
  const std::string beside = join_path(parent_path(from), name);
  if (in_quotes && read_(beside) != nullptr) return beside;
  for (const std::string& folder : folders_) {
    const std::string path = join_path(folder, name);
    if (read_(path) != nullptr) return path;
  }
  return beside;
}

void IncludedFiles::quote(SourceCode& code) const {
  for (const Include& include : includes_of(code)) {
    if (include.in_quotes) continue;
    const std::string name(include.name);
    if (find(name, code.file(), false) != join_path(parent_path(code.file()), name)) continue;
    std::string text(code.tokens()[include.token].text);
    const auto begin = static_cast<size_t>(include.name.data() - code.tokens()[include.token].text.data());
    text[begin - 1] = text[begin + name.size()] = '"';
    code.replace_directive(include.token, text);
  }
}

std::vector<const SourceCode*> IncludedFiles::with_included(const SourceCode& source) const {
  std::vector<const SourceCode*> found = {&source};
  std::set<std::string> seen = {source.file()};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Include& include : includes_of(*found[i])) {
      const std::string path = find(std::string(include.name), found[i]->file(), include.in_quotes);
      const SourceCode* code = seen.insert(path).second ? read_(path) : nullptr;
      if (code != nullptr) found.push_back(code);
    }
  }
  return found;
}

}  // namespace torch_slang
