#include "cache/trim.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cache/folder.h"
#include "cache/kind.h"
#include "common/environment.h"
#include "common/log.h"

namespace torch_slang::cache {
namespace {

constexpr int64_t kUsualLimit = int64_t{1} << 30;
constexpr int64_t kLeastUse = 60;  // seconds between two notes of a use: fewer writes
constexpr int64_t kOldSeconds = 3600;  // a temporary file or a lock of this age has no writer any more

struct Entry {
  Kind kind;
  std::string name;
  int64_t size;
  std::pair<int64_t, int64_t> used;  // seconds, nanoseconds
};

// Entries; what writers left behind goes.
std::vector<Entry> look() {
  std::vector<Entry> entries;
  const int64_t now = std::time(nullptr);
  for (const auto& [kind, _, counts] : kKinds) {
    if (!counts) continue;
    const Descriptor folder = open_folder(kind, IfMissing::Leave);
    if (!folder.is_open()) continue;
    for (const std::string& name : names_in(folder)) {
      struct stat facts{};
      if (::fstatat(folder.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode)) continue;
      if (is_key(name)) {
        entries.push_back({kind, name, facts.st_size, {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec}});
      } else if (facts.st_mtim.tv_sec + kOldSeconds < now &&
                 (name.starts_with(kTemporaryPrefix) || is_abandoned_lock(folder, name))) {
        remove_entry(folder, name);
      }
    }
  }
  return entries;
}

int64_t total_of(const std::vector<Entry>& entries) {
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.size;
  return total;
}

struct Removal {
  int64_t entries = 0;
  int64_t bytes = 0;
};

// The least recently used, until `bytes` are free.
Removal remove_oldest(std::vector<Entry> entries, int64_t bytes) {
  Removal removed;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (removed.bytes >= bytes) break;
    const Descriptor folder = open_folder(entry.kind, IfMissing::Leave);
    if (!folder.is_open()) continue;
    removed.entries += remove_entry(folder, entry.name);
    removed.bytes += entry.size;  // also if another process was faster
  }
  return removed;
}

// What this process knows of the folder's size; others write too.
struct Known {
  std::string folder;  // empty: it has not looked
  int64_t total = 0;
};

// Looking takes 10 us an entry, so few of many short processes that write a little do it: one for each 64th of the limit that
// they write together, by chance.
bool is_ones_turn(int64_t written, int64_t limit) {
  static auto* numbers = new std::minstd_rand(std::random_device{}());
  constexpr double kShare = 64;
  return std::uniform_real_distribution<double>()(*numbers) * static_cast<double>(limit) <
         kShare * static_cast<double>(written);
}

}  // namespace

std::optional<int64_t> size_limit() {
  const auto size = environment_size("TORCH_SLANG_CACHE_SIZE", kUsualLimit);
  return size && *size > 0 ? size : std::nullopt;
}

int64_t trim(int64_t size) {
  std::vector<Entry> entries = look();
  const int64_t excess = total_of(entries) - size;
  return remove_oldest(std::move(entries), excess).entries;
}

void keep_to_limit(int64_t written) {
  static std::mutex mutex;
  static auto* known = new Known();
  const auto limit = size_limit();
  if (!limit) return;
  const std::lock_guard<std::mutex> lock(mutex);
  known->total += written;
  const bool is_over = known->folder == path() && known->total > *limit;
  if (!is_over && !is_ones_turn(written, *limit)) return;
  std::vector<Entry> entries = look();
  *known = {path(), total_of(entries)};
  if (known->total <= *limit) return;
  // Some more, so that the next entry need not begin again.
  const Removal removed = remove_oldest(std::move(entries), known->total - *limit + *limit / 10);
  known->total -= removed.bytes;
  log_info("the cache folder ", path(), " was full: ", removed.entries, " entries are removed");
}

void note_use(const Descriptor& entry) {
  struct stat facts{};
  if (::fstat(entry.get(), &facts) != 0 || facts.st_mtim.tv_sec + kLeastUse > std::time(nullptr)) return;
  ::futimens(entry.get(), nullptr);  // fails in a folder that may only be read, where nothing is removed either
}

}  // namespace torch_slang::cache
