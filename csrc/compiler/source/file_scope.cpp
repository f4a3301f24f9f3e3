#include "compiler/source/file_scope.h"

#include <optional>
#include <set>
#include <vector>

#include "common/files.h"
#include "compiler/source/directives.h"

namespace torch_slang {
namespace {

// The name if the line is `#include "name"`.
std::optional<std::string> included_name(const std::string& line) {
  const Code code(line);
  const std::vector<Include> includes = includes_of(code);
  return includes.empty() || !includes[0].in_quotes ? std::nullopt : std::optional(std::string(includes[0].name));
}

class Includer {
 public:
  Includer(const std::vector<std::string>& folders, SourceFiles& files) : folders_(folders), files_(files) {}

  // `path`: of the file that the text is from; empty for __requirePrelude's own.
  void add(const std::string& text, const std::string& path) {
    size_t number = 1;
    for (size_t begin = 0; begin < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      const auto name = included_name(line);
      const auto header = name ? find(*name, path) : std::nullopt;
      if (!header) {
        if (line != "#pragma once") result_ += line;  // in a text that is no longer a header it is a warning
        result_ += "\n";
      } else if (seen_.insert(*header).second) {
        result_ += line_directive(1, *header) + "\n";
        add(files_.read_or_throw(*header), *header);
        if (!path.empty()) result_ += line_directive(number + 1, path) + "\n";
      }
    }
  }

  std::string result() { return std::move(result_); }

 private:
  std::optional<std::string> find(const std::string& name, const std::string& from) const {
    std::vector<std::string> folders;
    if (!from.empty()) folders.push_back(parent_path(from));
    folders.insert(folders.end(), folders_.begin(), folders_.end());
    for (const std::string& folder : folders) {
      const std::string path = join_path(folder, name);
      if (files_.exists(path)) return path;
    }
    return std::nullopt;
  }

  const std::vector<std::string>& folders_;
  SourceFiles& files_;
  std::set<std::string> seen_;
  std::string result_;
};

}  // namespace

void inline_headers(DeviceText& text, const CompileRequest& request, SourceFiles& files) {
  std::vector<std::string> folders = {parent_path(request.path)};
  folders.insert(folders.end(), request.include_dirs.begin(), request.include_dirs.end());
  Includer includer(folders, files);
  includer.add(text.file_scope, "");
  text.file_scope = includer.result();
}

}  // namespace torch_slang
