// The kinds of entries, and where the cache is.
#pragma once

#include <cstdint>
#include <string>

namespace torch_slang::cache {

enum class Kind : int8_t { Program, Cubin, Object, Choice, Probe, Audit };
inline constexpr Kind kKinds[] = {Kind::Program, Kind::Cubin, Kind::Object, Kind::Choice, Kind::Probe, Kind::Audit};

const char* name_of(Kind kind);  // "program"

// TORCH_SLANG_CACHE_DIR, else XDG_CACHE_HOME/torch_slang, else ~/.cache/torch_slang. Read at each call.
std::string path();

}  // namespace torch_slang::cache
