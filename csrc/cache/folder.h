// The cache's folders on the disk, one for each kind of entry in one of the user's own: Note [whose folder] in cache/cache.h.
//
// Note [checked and used]
//   A path may name another folder a moment after it was checked. So the folders are opened, one inside the other, and the
//   open descriptor of each is checked. Entries are opened, made, loaded and removed through that descriptor: the folder that
//   was checked is the folder that is used. Links are followed in the path to the cache alone, which is the user's choice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/kind.h"
#include "common/descriptor.h"

namespace torch_slang::cache {

inline constexpr const char* kTemporaryPrefix = ".tmp-";  // of a file that is still being written
inline constexpr const char* kLockSuffix = ".lock";  // of a file that is locked while its entry is made: cache/turn.h

enum class IfMissing : int8_t { Leave, Make };

// The descriptor is not open if there is no such folder (errno says so), or if the folder may not be used: then there is
// one warning.
Descriptor open_folder(Kind kind, IfMissing missing);

// A regular file of the user's that nobody else may write to, open to read; else not open.
Descriptor open_entry(const Descriptor& folder, const std::string& name);
bool has_entry(const Descriptor& folder, const std::string& name);
bool publish_entry(const Descriptor& folder, const std::string& name, std::string_view content);
bool remove_entry(const Descriptor& folder, const std::string& name);  // false also if there was none

std::vector<std::string> names_in(const Descriptor& folder);
bool is_key(std::string_view name);  // the name of an entry; locks and unfinished files have other names

// Whether it is the file of a lock whose owner has died.
bool is_abandoned_lock(const Descriptor& folder, const std::string& name);

// A path by which the loader finds the entry in the open folder.
std::string path_in(const Descriptor& folder, const std::string& name);

void warn_of_unwritable_folder();  // errno says why

}  // namespace torch_slang::cache
