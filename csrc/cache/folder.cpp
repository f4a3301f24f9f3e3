#include "cache/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "common/files.h"
#include "common/log.h"

namespace torch_slang::cache {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kEntryMode = 0600;
constexpr size_t kKeyLength = 64;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

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

void warn_of_unused_folder(const std::string& folder, const std::string& reason) {
  log_warning_once("the cache folder " + folder + " is not used: " + reason +
                   ". TORCH_SLANG_CACHE_DIR chooses another");
}

// The open folder if it may be used; `path` is for the warning alone.
Descriptor checked(Descriptor folder, const std::string& path) {
  struct stat facts{};
  std::string reason;
  if (!folder.is_open() || ::fstat(folder.get(), &facts) != 0) {
    reason = std::strerror(errno);
  } else if (facts.st_uid != ::geteuid()) {
    reason = "it belongs to another user, who could put code there";
  } else if (!is_own(facts)) {
    reason = "other users may write to it, and could put code there";
  }
  if (reason.empty()) return folder;
  warn_of_unused_folder(path, reason);
  return Descriptor();
}

Descriptor open_top(IfMissing missing) {
  const std::string folder = path();
  Descriptor top(::open(folder.c_str(), kOpenFolder));
  if (!top.is_open() && errno == ENOENT) {
    if (missing == IfMissing::Leave) return top;  // an empty cache, nothing to warn of
    if (!make_folders(folder, kFolderMode)) {
      log_warning_once("cannot make the cache folder " + folder + " (" + std::strerror(errno) +
                       "): compiled kernels are not kept. TORCH_SLANG_CACHE_DIR chooses another");
      return top;
    }
    top = Descriptor(::open(folder.c_str(), kOpenFolder));
  }
  top = checked(std::move(top), folder);
  if (!top.is_open() || !can_be_exchanged(canonical_path(folder))) return top;
  warn_of_unused_folder(folder, "a folder above it may be written by anyone, who could put another in its place");
  return Descriptor();
}

// No two writers, threads included, have the same.
std::string temporary_name() {
  static std::atomic<uint64_t> count{0};
  struct timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  char name[96];
  std::snprintf(name, sizeof(name), "%s%ld-%ld-%ld-%llu", kTemporaryPrefix, static_cast<long>(::getpid()),
                static_cast<long>(now.tv_sec), now.tv_nsec, static_cast<unsigned long long>(count++));
  return name;
}

}  // namespace

Descriptor open_folder(Kind kind, IfMissing missing) {
  const Descriptor top = open_top(missing);
  if (!top.is_open()) return Descriptor();
  const auto open = [&] { return Descriptor(::openat(top.get(), name_of(kind), kOpenFolder | O_NOFOLLOW)); };
  Descriptor folder = open();
  if (!folder.is_open() && errno == ENOENT) {
    if (missing == IfMissing::Leave) return folder;
    if (::mkdirat(top.get(), name_of(kind), kFolderMode) != 0 && errno != EEXIST) {
      warn_of_unwritable_folder();
      return folder;
    }
    folder = open();
  }
  return checked(std::move(folder), join_path(path(), name_of(kind)));
}

Descriptor open_entry(const Descriptor& folder, const std::string& name) {
  Descriptor entry(::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  if (!entry.is_open() || ::fstat(entry.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || !is_own(facts))
    return Descriptor();
  return entry;
}

bool has_entry(const Descriptor& folder, const std::string& name) {
  return ::faccessat(folder.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool publish_entry(const Descriptor& folder, const std::string& name, std::string_view content) {
  const std::string temporary = temporary_name();
  const Descriptor file(
      ::openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kEntryMode));
  if (!file.is_open()) return false;
  if (write_all(file, content) && ::renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0)
    return true;
  const int saved = errno;
  remove_entry(folder, temporary);
  errno = saved;
  return false;
}

bool remove_entry(const Descriptor& folder, const std::string& name) {
  return ::unlinkat(folder.get(), name.c_str(), 0) == 0;
}

std::vector<std::string> names_in(const Descriptor& folder) {
  std::vector<std::string> names;
  const int again = ::openat(folder.get(), ".", kOpenFolder);  // reading moves a position that descriptors share
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(again < 0 ? nullptr : ::fdopendir(again), ::closedir);
  while (const dirent* one = stream ? ::readdir(stream.get()) : nullptr) {
    if (std::string_view(one->d_name) != "." && std::string_view(one->d_name) != "..") names.emplace_back(one->d_name);
  }
  return names;
}

bool is_key(std::string_view name) {
  return name.size() == kKeyLength && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string path_in(const Descriptor& folder, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(folder.get()) + "/" + name;
}

void warn_of_unwritable_folder() {
  log_warning_once("cannot write to the cache folder " + path() + " (" + std::strerror(errno) +
                   "): compiled kernels are not kept. TORCH_SLANG_CACHE_DIR chooses another");
}

bool is_abandoned_lock(const Descriptor& folder, const std::string& name) {
  if (!name.ends_with(kLockSuffix)) return false;
  const Descriptor file(::openat(folder.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace torch_slang::cache
