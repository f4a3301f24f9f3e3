// The kinds of entries, and where the cache is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/enum_rows.h"

namespace torch_slang::cache {

// In the order of kKinds.
enum class Kind : int8_t { Program, Cubin, Object, Choice, Probe, Audit };

struct KindRow {
  Kind kind;
  const char* name;  // of its folder
  bool counts;  // to the cache's limit (cache/trim.h): a compiler makes its entries, which may be large
};
inline constexpr KindRow kKinds[] = {
    {Kind::Program, "program", true}, {Kind::Cubin, "cubin", true},  {Kind::Object, "object", true},
    {Kind::Choice, "choice", false},  {Kind::Probe, "probe", false}, {Kind::Audit, "audit", false},
};
static_assert(has_each_kind(kKinds, Kind::Audit));

constexpr const char* name_of(Kind kind) { return kKinds[static_cast<size_t>(kind)].name; }

// TORCH_SLANG_CACHE_DIR, else XDG_CACHE_HOME/torch_slang, else ~/.cache/torch_slang. Read at each call.
std::string path();

}  // namespace torch_slang::cache
