#include "cache/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/files.h"
#include "common/log.h"

namespace torch_slang::cache {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

bool is_own(const struct stat& facts) { return facts.st_uid == ::geteuid() && (facts.st_mode & kOthersMayWrite) == 0; }

// A folder above that anyone may write to lets anyone exchange the folders in it, unless its sticky bit forbids that.
bool can_be_exchanged(const std::string& folder) {
  for (std::string above = parent_path(folder);; above = parent_path(above)) {
    struct stat facts{};
    if (::stat(above.c_str(), &facts) == 0 && (facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0)
      return true;
    if (above == "/" || above == ".") return false;
  }
}

std::string why_not_trusted(const std::string& folder) {
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0) return std::strerror(errno);
  if (!S_ISDIR(facts.st_mode)) return "it is not a folder";
  if (facts.st_uid != ::geteuid()) return "it belongs to another user, who could put code there";
  if (!is_own(facts)) return "other users may write to it, and could put code there";
  if (can_be_exchanged(canonical_path(folder)))
    return "a folder above it may be written by anyone, who could put another in its place";
  return {};
}

}  // namespace

bool is_trusted_folder(const std::string& folder, bool make) {
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0 && errno == ENOENT) {
    if (!make) return false;  // an empty cache, nothing to warn of
    if (!make_folders(folder)) {
      log_warning_once("cannot make the cache folder " + folder + " (" + std::strerror(errno) +
                       "): compiled kernels are not kept. TORCH_SLANG_CACHE_DIR chooses another");
      return false;
    }
  }
  const std::string reason = why_not_trusted(folder);
  if (reason.empty()) return true;
  log_warning_once("the cache folder " + folder + " is not used: " + reason +
                   ". TORCH_SLANG_CACHE_DIR chooses another");
  return false;
}

bool is_trusted_file(const std::string& path) {
  struct stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && is_own(facts);
}

}  // namespace torch_slang::cache
