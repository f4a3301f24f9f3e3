// How large the cache may get. What compilers made counts and goes, the least recently used first; choices of tuning and
// probes of the compiler, which are small and took time to find out, stay. An entry that somebody reads or has loaded may go:
// an open or loaded file outlives its name.
#pragma once

#include <cstdint>
#include <optional>

#include "common/descriptor.h"

namespace torch_slang::cache {

// TORCH_SLANG_CACHE_SIZE; nothing: no limit.
std::optional<int64_t> size_limit();

// Removes the least recently used entries until the rest has at most `size` bytes; returns how many.
int64_t trim(int64_t size);

// After an entry of so many bytes was written: keeps to the limit. Looks at the disk only now and then.
void keep_to_limit(int64_t written);

void note_use(const Descriptor& entry);

}  // namespace torch_slang::cache
