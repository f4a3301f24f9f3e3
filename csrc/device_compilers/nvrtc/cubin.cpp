#include "device_compilers/nvrtc/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace torch_slang {
namespace {

// A structure at a place in the file, if it lies within.
template <class T>
std::optional<T> structure_at(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string_view content_of(std::string_view file, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > file.size()) return {};
  return file.substr(section.sh_offset, section.sh_size);
}

// The section `.nv.info` holds entries {format, attribute, size or value}; those of format 4 have `size` bytes following.
// The attribute 0x2f is {symbol of a kernel, its registers}.
struct InfoEntry {
  uint8_t format;
  uint8_t attribute;
  uint16_t size;
};
struct RegisterCount {
  uint32_t symbol;
  uint32_t registers;
};
constexpr uint8_t kSizedFormat = 4;
constexpr uint8_t kRegisterCount = 0x2f;

int registers_in_info(std::string_view info) {
  uint32_t most = 0;
  for (uint64_t at = 0;;) {
    const auto entry = structure_at<InfoEntry>(info, at);
    if (!entry) return static_cast<int>(most);
    at += sizeof(InfoEntry);
    if (entry->format != kSizedFormat) continue;
    if (entry->attribute == kRegisterCount) {
      if (const auto count = structure_at<RegisterCount>(info, at)) most = std::max(most, count->registers);
    }
    at += entry->size;
  }
}

}  // namespace

int registers_of_cubin(std::string_view cubin) {
  const auto header = structure_at<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  const auto section = [&](uint64_t index) {
    return structure_at<Elf64_Shdr>(cubin, header->e_shoff + index * header->e_shentsize);
  };
  const auto name_section = section(header->e_shstrndx);
  if (!name_section) return 0;
  const std::string_view names = content_of(cubin, *name_section);
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto candidate = section(i);
    constexpr std::string_view kName{".nv.info\0", 9};
    if (candidate && names.substr(std::min<uint64_t>(candidate->sh_name, names.size()), kName.size()) == kName) {
      return registers_in_info(content_of(cubin, *candidate));
    }
  }
  return 0;
}

}  // namespace torch_slang
