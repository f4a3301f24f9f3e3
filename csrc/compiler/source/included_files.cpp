#include "compiler/source/included_files.h"

#include <set>
#include <string_view>

#include "common/files.h"
#include "compiler/text/tokens.h"

namespace torch_slang {
namespace {

// `#include "name"` or `#include <name>`; the name is a view of the source.
struct Include {
  std::string_view name;
  bool in_quotes;
};

std::vector<Include> includes_of(std::string_view source) {
  constexpr std::string_view kWord = "include";
  std::vector<Include> includes;
  if (source.find(kWord) == std::string_view::npos) return includes;
  for (const Token& token : split_tokens(source)) {
    if (token.kind != TokenKind::Directive) continue;
    const size_t word = token.text.find_first_not_of(" \t", 1);
    if (word == std::string_view::npos || !token.text.substr(word).starts_with(kWord)) continue;
    const size_t open = token.text.find_first_not_of(" \t", word + kWord.size());
    if (open == std::string_view::npos || (token.text[open] != '"' && token.text[open] != '<')) continue;
    const bool in_quotes = token.text[open] == '"';
    const size_t close = token.text.find(in_quotes ? '"' : '>', open + 1);
    if (close != std::string_view::npos) includes.push_back({token.text.substr(open + 1, close - open - 1), in_quotes});
  }
  return includes;
}

}  // namespace

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

std::string IncludedFiles::with_quotes(std::string source, const std::string& path) const {
  std::string result = source;
  for (const Include& include : includes_of(source)) {
    if (include.in_quotes) continue;
    const std::string name(include.name);
    if (find(name, path, false) != join_path(parent_path(path), name)) continue;
    const auto begin = static_cast<size_t>(include.name.data() - source.data());
    result[begin - 1] = result[begin + name.size()] = '"';
  }
  return result;
}

std::vector<const std::string*> IncludedFiles::all_texts(const std::string& source, const std::string& path) const {
  std::vector<const std::string*> texts = {&source};
  std::vector<std::string> paths = {path};
  std::set<std::string> seen = {path};
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const Include& include : includes_of(*texts[i])) {
      const std::string found = find(std::string(include.name), paths[i], include.in_quotes);
      const std::string* text = seen.insert(found).second ? read_(found) : nullptr;
      if (text == nullptr) continue;
      texts.push_back(text);
      paths.push_back(found);
    }
  }
  return texts;
}

}  // namespace torch_slang
