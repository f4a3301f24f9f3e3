// The cache's folders on the disk, one for each kind of entry in one of the user's own: Note [whose folder] in cache/cache.h.
//
// Note [checked and used]
//   A path names what stands there at the moment. So the folders are opened one in the other, each is checked as the open
//   file that it is, and entries are opened, made, loaded and removed below that: what was checked is what is used, whatever
//   the path to it means a moment later. No link is followed but that at the top, which is the user's choice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/cache.h"
#include "common/descriptor.h"

namespace torch_slang::cache {

inline constexpr const char* kTemporaryPrefix = ".tmp-";  // of a file that is still being written

enum class IfMissing : int8_t { Leave, Make };

// Not open if there is none (errno), or if it may not be used: then with one warning.
Descriptor open_folder(Kind kind, IfMissing missing);

// A regular file of the user's that nobody else may write to, open to read; else not open.
Descriptor open_entry(const Descriptor& folder, const std::string& name);
bool has_entry(const Descriptor& folder, const std::string& name);
bool publish_entry(const Descriptor& folder, const std::string& name, std::string_view content);
bool remove_entry(const Descriptor& folder, const std::string& name);  // false also if there was none

std::vector<std::string> names_in(const Descriptor& folder);
bool is_key(std::string_view name);  // of an entry, not of a lock or of what a writer has not finished

// A path by which the loader finds the entry in the open folder.
std::string path_in(const Descriptor& folder, const std::string& name);

void warn_of_unwritable_folder();  // errno says why

}  // namespace torch_slang::cache
