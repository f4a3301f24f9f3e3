// The files that a source includes, found where Slang looks for them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

class IncludedFiles {
 public:
  using Read = std::function<const SourceCode*(const std::string& path)>;  // null if there is no such file

  // `folders`: those that are searched besides the includer's own.
  IncludedFiles(std::vector<std::string> folders, Read read) : folders_(std::move(folders)), read_(std::move(read)) {}

  // `#include <name>` of a file that is beside the source, and in none of the folders, gets quotes: Slang looks beside the source
  // only for those.
  void quote(SourceCode& code) const;

  // The source itself, and all that it includes.
  std::vector<const SourceCode*> with_included(const SourceCode& source) const;

 private:
  std::string find(const std::string& name, const std::string& from, bool in_quotes) const;

  std::vector<std::string> folders_;
  Read read_;
};

}  // namespace torch_slang
