// The disk cache: compiled code, refusals of compilers, and choices made by measurement, kept between processes.
// Entries are found by kind and key (a digest of all that decides the content), checked whole before they are used, and
// published atomically, so any number of threads and processes may share a folder. A damaged file on
// the disk never throws: the cache only makes things faster.
//
// Note [cache entry]
//   A file <folder>/<kind>/<key> holds the payload and then a trailer: magic, format version, payload size, checksum over
//   kind, key and payload. The trailer stands at the end so that a shared object can be loaded from its entry as it is
//   (the loader ignores what follows the sections). A damaged, truncated or foreign-version entry is deleted and counts
//   as a miss; an entry that cannot be read is only a miss.
//
// Note [whose folder]
//   Entries are code. A folder, the cache's own and each one in it, is used only if it is the user's own and nobody else may
//   write to it, and an entry only if the same holds for its file; otherwise there is one warning and no disk cache. A folder
//   that cannot be written is read, with one warning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/kind.h"
#include "common/dynamic_library.h"

namespace torch_slang::cache {

enum class Compiler : int8_t { Slang, Host, Nvrtc };

std::optional<std::string> read(Kind kind, const std::string& key);
bool write(Kind kind, const std::string& key, std::string_view payload);  // false: it is not on the disk

bool has(Kind kind, const std::string& key);  // something of that name, not counted as a hit or miss

// The object, loaded from its entry, which was just verified; the payload too if it is asked for. One that cannot be loaded (its
// folder does not allow execution, say) is as good as none, with one warning.
std::optional<DynamicLibrary> load_object(const std::string& key, std::string* payload = nullptr);

// Removes all entries of the folder, or those of one kind, and nothing else in it. Returns how many.
int64_t clear();
int64_t clear(Kind kind);

struct Stats {
  int64_t hits = 0;
  int64_t misses = 0;  // damaged ones included
  int64_t writes = 0;
  int64_t damaged = 0;
  int64_t slang_runs = 0;
  int64_t host_runs = 0;
  int64_t nvrtc_runs = 0;
};
Stats stats();  // of this process
void count_run(Compiler compiler);

}  // namespace torch_slang::cache
