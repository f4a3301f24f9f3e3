// The kinds of entries, and where the cache is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace torch_slang::cache {

// In the order of kKinds.
enum class Kind : int8_t { Program, Cubin, Object, Choice, Probe, Audit };

struct KindRow {
  Kind kind;
  const char* name;  // of its folder
  bool
      counts;  // compilers make its entries, and these are what the cache's limit is for (cache/trim.h); others are small
};
inline constexpr KindRow kKinds[] = {
    {Kind::Program, "program", true}, {Kind::Cubin, "cubin", true},  {Kind::Object, "object", true},
    {Kind::Choice, "choice", false},  {Kind::Probe, "probe", false}, {Kind::Audit, "audit", false},
};
constexpr bool kinds_are_in_order() {
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i].kind != static_cast<Kind>(i)) return false;
  }
  return true;
}
static_assert(kinds_are_in_order());

constexpr const char* name_of(Kind kind) { return kKinds[static_cast<size_t>(kind)].name; }

// TORCH_SLANG_CACHE_DIR, else XDG_CACHE_HOME/torch_slang, else ~/.cache/torch_slang. Read at each call.
std::string path();

}  // namespace torch_slang::cache
