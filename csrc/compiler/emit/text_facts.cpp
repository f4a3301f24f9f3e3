#include "compiler/emit/text_facts.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/identifiers.h"
#include "compiler/text/tokens.h"
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
void for_each_name(const std::vector<Token>& tokens, const Use& use) {
  for (size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at].kind == TokenKind::Identifier && !is_numbered(tokens[at].text)) use(tokens[at].text, at);
  }
}

// "file, line" of the TSL_AT(file, line) at `at`.
std::string site_at(const std::vector<Token>& tokens, size_t at) {
  std::string site;
  for (at += 2; at < tokens.size() && tokens[at].text != ")"; ++at) site += tokens[at].text;
  return site;
}

}  // namespace

void read_facts(DeviceText& text) {
  const auto find_meetings = [&](std::string_view name) {
    text.barriers = text.barriers || is_barrier(name);
    text.waves = text.waves || is_wave(name);
  };
  const std::vector<Token> body = split_tokens(text.body), file_scope = split_tokens(text.file_scope);
  for_each_name(file_scope, [&](std::string_view name, size_t) { find_meetings(name); });
  for_each_name(body, [&](std::string_view name, size_t at) {
    find_meetings(name);
    note_use(name, text);
    if (name == "TSL_AT") text.sites.insert(site_at(body, at));
  });
}

bool depends_on_threads(const DeviceText& text) {
  bool depends = text.barriers;
  for_each_name(split_tokens(text.body), [&](std::string_view name, size_t) {
    for (const char* variable : {"threadIdx", "blockIdx", "blockDim", "gridDim"}) depends = depends || name == variable;
  });
  return depends;
}

}  // namespace torch_slang
