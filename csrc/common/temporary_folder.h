// A folder for the files of one task.
#pragma once

#include <string>

#include "common/descriptor.h"
#include "common/files.h"

namespace torch_slang {

// A new private folder (0700) that goes, with all that is in it, when its owner does: if the process is killed, when another
// one makes such a folder (common/leftovers.h).
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix = "torch_slang");  // throws if it cannot be made
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
  Descriptor lock_;
};

}  // namespace torch_slang
