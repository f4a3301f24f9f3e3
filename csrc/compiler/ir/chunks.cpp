#include "compiler/ir/chunks.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <cstring>

namespace torch_slang {
namespace {

constexpr size_t kHeader = 8;  // a tag, and the number of bytes behind it
constexpr size_t kListHeader = 12;  // the list's type besides

// Each chunk begins at a multiple of it.
size_t aligned(size_t at) { return (at + 7) / 8 * 8; }

bool is_list(std::string_view tag) { return tag == "RIFF" || tag == "LIST"; }

std::string_view part(std::string_view file, size_t at, size_t size) {
  TORCH_CHECK(at <= file.size() && size <= file.size() - at, "torch-slangc: a serialized Slang module is cut off");
  return file.substr(at, size);
}

Chunk read_chunk(std::string_view file, size_t at, size_t& end) {
  uint32_t size = 0;
  std::memcpy(&size, part(file, at + 4, sizeof(size)).data(), sizeof(size));
  end = at + kHeader + size;
  Chunk chunk;
  chunk.tag = part(file, at, 4);
  const std::string_view content = part(file, at + kHeader, size);
  if (!is_list(chunk.tag)) {
    chunk.data = content;
    return chunk;
  }
  chunk.type = part(file, at + kHeader, 4);
  for (size_t child = aligned(at + kListHeader); child < end; child = aligned(child)) {
    chunk.children.push_back(read_chunk(file, child, child));
  }
  return chunk;
}

void append_chunk(const Chunk& chunk, std::string& file) {
  file.resize(aligned(file.size()), '\0');
  const size_t begin = file.size();
  file.append(chunk.tag).append(4, '\0').append(chunk.type).append(chunk.data);
  for (const Chunk& child : chunk.children) append_chunk(child, file);
  const uint32_t size = static_cast<uint32_t>(file.size() - begin - kHeader);
  std::memcpy(file.data() + begin + 4, &size, sizeof(size));
}

}  // namespace

Chunk read_chunks(std::string_view file) {
  size_t end = 0;
  return read_chunk(file, 0, end);
}

std::string write_chunks(const Chunk& root) {
  std::string file;
  append_chunk(root, file);
  return file;
}

Chunk* find_data(Chunk& root, std::string_view tag) {
  if (root.type.empty()) return root.tag == tag ? &root : nullptr;
  for (Chunk& child : root.children) {
    if (Chunk* found = find_data(child, tag)) return found;
  }
  return nullptr;
}

}  // namespace torch_slang
