// The bytes of an entry: Note [cache entry] in cache/cache.h.
#pragma once

#include <string>
#include <string_view>

#include "cache/kind.h"

namespace torch_slang::cache {

std::string seal(Kind kind, std::string_view key, std::string_view payload);

// Cuts `bytes` down to the payload, or says that they are no whole entry of this kind, key and format.
bool unseal(Kind kind, std::string_view key, std::string& bytes);

}  // namespace torch_slang::cache
