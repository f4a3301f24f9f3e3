#include "cache/entry.h"

#include <cstring>

#include "common/hash.h"

namespace torch_slang::cache {
namespace {

constexpr std::string_view kMagic = "tslcache";
constexpr uint64_t kFormatVersion = 1;
constexpr size_t kDigestSize = 64;  // hexadecimal digits
constexpr size_t kTrailerSize = kMagic.size() + 2 * sizeof(uint64_t) + kDigestSize;

std::string bytes_of(uint64_t number) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

std::string trailer(Kind kind, std::string_view key, std::string_view payload) {
  std::string text(kMagic);
  text += bytes_of(kFormatVersion);
  text += bytes_of(payload.size());
  text += Digest().add(name_of(kind)).add(key).add(payload).hex();
  return text;
}

}  // namespace

std::string seal(Kind kind, std::string_view key, std::string_view payload) {
  return std::string(payload) + trailer(kind, key, payload);
}

bool unseal(Kind kind, std::string_view key, std::string& bytes) {
  if (bytes.size() < kTrailerSize) return false;
  const std::string_view whole = bytes;
  const std::string_view payload = whole.substr(0, whole.size() - kTrailerSize);
  if (whole.substr(payload.size()) != trailer(kind, key, payload)) return false;
  bytes.resize(payload.size());
  return true;
}

}  // namespace torch_slang::cache
