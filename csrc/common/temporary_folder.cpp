#include "common/temporary_folder.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/leftovers.h"

namespace torch_slang {

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  remove_leftovers(temporary_root(), prefix);
  std::string name = join_path(temporary_root(), prefix + "-XXXXXX");
  TORCH_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make a temporary folder in ", temporary_root(), ": ",
              std::strerror(errno), ". TMPDIR chooses another");
  path_ = name;
  lock_ = lock_folder(path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_folder(path_);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

}  // namespace torch_slang
