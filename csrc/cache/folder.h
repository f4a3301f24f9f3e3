// Which folder the cache may use: Note [whose folder] in cache/cache.h.
#pragma once

#include <string>

namespace torch_slang::cache {

// The folder exists, is the user's own and nobody else's to write; made if it does not exist and `make` says so. If it
// may not be used: false, with one warning.
bool is_trusted_folder(const std::string& folder, bool make);

// A regular file of the user's that nobody else may write to.
bool is_trusted_file(const std::string& path);

}  // namespace torch_slang::cache
