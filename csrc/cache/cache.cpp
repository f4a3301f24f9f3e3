#include "cache/cache.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "cache/entry.h"
#include "cache/folder.h"
#include "cache/trim.h"
#include "common/files.h"
#include "common/log.h"

namespace torch_slang::cache {
namespace {

struct Counters {
  std::atomic<int64_t> hits{0};
  std::atomic<int64_t> misses{0};
  std::atomic<int64_t> writes{0};
  std::atomic<int64_t> damaged{0};
  std::atomic<int64_t> runs[3] = {0, 0, 0};  // by Compiler
};

Counters& counters() {
  static Counters all;
  return all;
}

void check_key(const std::string& key) { TORCH_INTERNAL_ASSERT(is_key(key), "cache key ", key); }

// The payload of an entry that is there and whole.
std::optional<std::string> take(const Descriptor& folder, Kind kind, const std::string& key) {
  const Descriptor entry = open_entry(folder, key);
  if (!entry.is_open()) return std::nullopt;
  auto bytes = read_descriptor(entry);
  if (!bytes) return std::nullopt;
  if (unseal(kind, key, *bytes)) {
    note_use(entry);
    return bytes;
  }
  log_info("the cache entry ", join_path(join_path(path(), name_of(kind)), key),
           " is damaged or of another version: it is removed");
  ++counters().damaged;
  remove_entry(folder, key);
  return std::nullopt;
}

std::optional<std::string> take_counted(const Descriptor& folder, Kind kind, const std::string& key) {
  check_key(key);
  auto payload = folder.is_open() ? take(folder, kind, key) : std::nullopt;
  ++(payload ? counters().hits : counters().misses);
  log_debug("cache ", payload ? "hit" : "miss", ": ", name_of(kind), " ", key);
  return payload;
}

}  // namespace

std::optional<std::string> read(Kind kind, const std::string& key) {
  return take_counted(open_folder(kind, IfMissing::Leave), kind, key);
}

bool has(Kind kind, const std::string& key) {
  check_key(key);
  const Descriptor folder = open_folder(kind, IfMissing::Leave);
  return folder.is_open() && has_entry(folder, key);
}

std::optional<DynamicLibrary> load_object(const std::string& key, std::string* payload) {
  const Descriptor folder = open_folder(Kind::Object, IfMissing::Leave);
  auto content = take_counted(folder, Kind::Object, key);
  if (!content) return std::nullopt;
  std::string reason;
  auto library = DynamicLibrary::try_open(path_in(folder, key), &reason);
  if (!library && has_entry(folder, key))  // else it was removed just now, as one that nobody had used for long
    log_warning_once("CPU kernels are compiled but cannot be loaded from the cache: " + reason);
  if (library && payload != nullptr) *payload = *std::move(content);
  return library;
}

bool write(Kind kind, const std::string& key, std::string_view payload) {
  check_key(key);
  const Descriptor folder = open_folder(kind, IfMissing::Make);
  if (!folder.is_open()) return false;
  const std::string entry = seal(kind, key, payload);
  if (!publish_entry(folder, key, entry)) {
    warn_of_unwritable_folder();
    return false;
  }
  ++counters().writes;
  keep_to_limit(static_cast<int64_t>(entry.size()));
  return true;
}

int64_t clear() {
  int64_t removed = 0;
  for (const KindRow& row : kKinds) removed += clear(row.kind);
  return removed;
}

int64_t clear(Kind kind) {
  int64_t removed = 0;
  const Descriptor folder = open_folder(kind, IfMissing::Leave);
  if (!folder.is_open()) return removed;
  // Locks and temporaries of writers at work, or that died, go too: those at work then find that they cannot publish.
  for (const std::string& name : names_in(folder)) removed += remove_entry(folder, name) && is_key(name);
  return removed;
}

Stats stats() {
  const Counters& all = counters();
  Stats now;
  now.hits = all.hits;
  now.misses = all.misses;
  now.writes = all.writes;
  now.damaged = all.damaged;
  now.slang_runs = all.runs[static_cast<size_t>(Compiler::Slang)];
  now.host_runs = all.runs[static_cast<size_t>(Compiler::Host)];
  now.nvrtc_runs = all.runs[static_cast<size_t>(Compiler::Nvrtc)];
  return now;
}

void count_run(Compiler compiler) { ++counters().runs[static_cast<size_t>(compiler)]; }

}  // namespace torch_slang::cache
