#include "cache/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "cache/folder.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "common/process.h"

namespace torch_slang::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongWait{1};

std::string lock_name(const std::string& key) { return key + kLockSuffix; }

bool is_locked_by_another(const Descriptor& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR);
}

// Whether the open file still has its name, so that its owner did not remove it.
bool stands_in(const Descriptor& folder, const Descriptor& file, const std::string& name) {
  struct stat own{}, there{};
  return ::fstat(file.get(), &own) == 0 && ::fstatat(folder.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

// Until the file is unlocked; an owner that hangs is not waited for for ever.
void wait_for_owner(const Descriptor& file, const std::string& what) {
  const auto start = Clock::now();
  const auto limit = 2 * compile_time_limit();
  bool told = false;
  wait_interruptibly([&](auto tick) {
    if (!is_locked_by_another(file)) return true;
    const auto waited = Clock::now() - start;
    if (waited > kLongWait && !told) {
      log_warning_once("waiting for " + what + ", which another thread or process is compiling ...");
      told = true;
    }
    std::this_thread::sleep_for(tick);
    return limit.count() > 0 && waited > limit;
  });
}

}  // namespace

Turn::Turn(Kind kind, const std::string& key, const std::string& what)
    : folder_(open_folder(kind, IfMissing::Make)), name_(lock_name(key)) {
  if (!folder_.is_open()) return;
  Descriptor file(::openat(folder_.get(), name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return;
  wait_for_owner(file, what);
  if (stands_in(folder_, file, name_)) lock_ = std::move(file);
}

Turn::~Turn() {
  if (!lock_.is_open()) return;
  if (stands_in(folder_, lock_, name_)) remove_entry(folder_, name_);
  ::flock(lock_.get(), LOCK_UN);  // closing would not do if the process has forked
}

}  // namespace torch_slang::cache
