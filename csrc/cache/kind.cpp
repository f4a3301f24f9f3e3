#include "cache/kind.h"

#include <pwd.h>
#include <unistd.h>

#include "common/environment.h"
#include "common/files.h"

namespace torch_slang::cache {
namespace {

std::string home_folder() {
  if (const auto home = environment("HOME")) return *home;
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : temporary_root();
}

}  // namespace

std::string path() {
  if (const auto chosen = environment("TORCH_SLANG_CACHE_DIR")) return *chosen;
  const auto caches = environment("XDG_CACHE_HOME");
  // The XDG specification has relative paths ignored.
  const std::string folder = caches && caches->front() == '/' ? *caches : join_path(home_folder(), ".cache");
  return join_path(folder, "torch_slang");
}

}  // namespace torch_slang::cache
