#include "cache/cache.h"

#include <c10/util/Exception.h>
#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "cache/entry.h"
#include "cache/folder.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/log.h"

namespace torch_slang::cache {
namespace {

constexpr Kind kKinds[] = {Kind::Program, Kind::Cubin, Kind::Object, Kind::Choice, Kind::Probe};
constexpr const char* kNames[] = {"program", "cubin", "object", "choice", "probe"};
static_assert(std::size(kKinds) == std::size(kNames));

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

std::string home_folder() {
  if (const auto home = environment("HOME")) return *home;
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : temporary_root();
}

std::string kind_folder(Kind kind) { return join_path(path(), name_of(kind)); }

std::string entry_path(Kind kind, const std::string& key) {
  TORCH_INTERNAL_ASSERT(!key.empty() && key.find_first_not_of("0123456789abcdef") == std::string::npos, "cache key ",
                        key);
  return join_path(kind_folder(kind), key);
}

// The payload of an entry that is there and whole.
std::optional<std::string> take(Kind kind, const std::string& key, const std::string& file) {
  if (!is_trusted_folder(path(), /*make=*/false) || !is_trusted_file(file)) return std::nullopt;
  auto bytes = read_file(file);
  if (!bytes) return std::nullopt;
  if (unseal(kind, key, *bytes)) return bytes;
  log_info("the cache entry ", file, " is damaged or of another version: it is removed");
  ++counters().damaged;
  remove_file(file);
  return std::nullopt;
}

std::optional<std::string> take_counted(Kind kind, const std::string& key, const std::string& file) {
  auto payload = take(kind, key, file);
  ++(payload ? counters().hits : counters().misses);
  log_debug("cache ", payload ? "hit" : "miss", ": ", name_of(kind), " ", key);
  return payload;
}

}  // namespace

const char* name_of(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string path() {
  if (const auto chosen = environment("TORCH_SLANG_CACHE_DIR")) return *chosen;
  const auto caches = environment("XDG_CACHE_HOME");
  // The XDG specification has relative paths ignored.
  const std::string folder = caches && caches->front() == '/' ? *caches : join_path(home_folder(), ".cache");
  return join_path(folder, "torch_slang");
}

std::optional<std::string> read(Kind kind, const std::string& key) {
  return take_counted(kind, key, entry_path(kind, key));
}

std::optional<std::string> path_of(Kind kind, const std::string& key, std::string* payload) {
  const std::string file = entry_path(kind, key);
  auto content = take_counted(kind, key, file);
  if (!content) return std::nullopt;
  if (payload != nullptr) *payload = *std::move(content);
  return file;
}

bool write(Kind kind, const std::string& key, std::string_view payload) {
  if (!is_trusted_folder(path(), /*make=*/true)) return false;
  if (!make_folders(kind_folder(kind)) || !publish_file(entry_path(kind, key), seal(kind, key, payload))) {
    log_warning_once("cannot write to the cache folder " + path() + " (" + std::strerror(errno) +
                     "): compiled kernels are not kept. TORCH_SLANG_CACHE_DIR chooses another");
    return false;
  }
  ++counters().writes;
  return true;
}

int64_t clear() {
  int64_t removed = 0;
  for (const Kind kind : kKinds) removed += clear(kind);
  return removed;
}

int64_t clear(Kind kind) {
  int64_t removed = 0;
  if (!is_trusted_folder(path(), /*make=*/false)) return removed;
  const std::string folder = kind_folder(kind);
  // Temporaries of writers at work, or that died, go too: those at work then find that they cannot publish.
  for (const std::string& name : list_folder(folder)) removed += remove_file(join_path(folder, name));
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
