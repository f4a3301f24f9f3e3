#include "compiler/emit/text_facts.h"

#include <algorithm>
#include <string_view>

#include "common/identifiers.h"
#include "program/intrinsics.h"

namespace torch_slang {
namespace {

bool is_barrier(std::string_view name) {
  return name == "TSL_SHARED" || name.starts_with("__syncthreads") || name.starts_with("__shared__");
}

bool is_wave(std::string_view name) {
  for (const char* prefix : {"_wave", "_slang_wave", "_slang_quad", "_getLaneId", "_getActiveMask",
                             "_getMultiPrefixMask", "_getConvergedMask", "__shfl", "__ballot", "__activemask",
                             "__any_sync", "__all_sync", "__match_", "__reduce_", "__syncwarp"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

void note_use(std::string_view name, DeviceText& text) {
  if (std::ranges::find(intrinsics::kNames, name) != std::end(intrinsics::kNames)) text.uses.emplace(name);
  for (const std::string_view family : intrinsics::kFamilies) {
    if (name.starts_with(family)) text.uses.emplace(family);
  }
}

// Identifiers that no user gave.
template <class Use>
void for_each_name(const Code& code, const Use& use) {
  for (size_t at = 0; at < code.size(); ++at) {
    if (code.is_name(at) && !is_numbered(code[at])) use(code[at], at);
  }
}

}  // namespace

void read_facts(const Code& file_scope, const Code& body, DeviceText& text) {
  const auto find_meetings = [&](std::string_view name) {
    text.barriers = text.barriers || is_barrier(name);
    text.waves = text.waves || is_wave(name);
  };
  for_each_name(file_scope, [&](std::string_view name, size_t) { find_meetings(name); });
  for_each_name(body, [&](std::string_view name, size_t at) {
    find_meetings(name);
    note_use(name, text);
    if (name == "TSL_AT") text.sites.insert(body.spaced_text({at + 2, body.closing(at + 1, body.size())}));
  });
}

bool depends_on_threads(const Code& body, const DeviceText& text) {
  bool depends = text.barriers;
  for_each_name(body, [&](std::string_view name, size_t) {
    for (const char* variable : {"threadIdx", "blockIdx", "blockDim", "gridDim"}) depends = depends || name == variable;
  });
  return depends;
}

}  // namespace torch_slang
