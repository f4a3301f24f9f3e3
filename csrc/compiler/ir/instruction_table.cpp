#include "compiler/ir/instruction_table.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <string_view>

namespace torch_slang {
namespace {

constexpr std::string_view kMagic =
    "\xAB"
    "fossil 100\xBB\r\n\x1A\n";
constexpr size_t kRootPointer = 28;  // behind the magic bytes, a size and flags
constexpr uint64_t kSerializationVersion = 1;  // IRModuleInfo::kSupportedSerializationVersion

// IRModuleInfo: serializationVersion, fullVersion, module. IRModule: m_name, m_version, then the tables.
constexpr size_t kModulePointer = 12;
constexpr size_t kTables = 16;
// FlatInstTable: pointers to arrays. The three behind these (of strings and literals) stay as they are.
enum Table : size_t { kInstructions, kChildren, kLocations, kReferences };

class Fossil {
 public:
  explicit Fossil(const std::string& bytes) : bytes_(bytes) {
    check(bytes.compare(0, kMagic.size(), kMagic) == 0);
    const size_t root = target(kRootPointer);
    check(read<uint64_t>(root) == kSerializationVersion);
    tables_ = target(root + kModulePointer) + kTables;
  }

  // Where the pointer to a table stands.
  size_t pointer_to(Table table) const { return tables_ + sizeof(int32_t) * table; }

  // 0: the pointer at `at` is null.
  size_t target(size_t at) const {
    const int32_t distance = read<int32_t>(at);
    return distance == 0 ? 0 : at + static_cast<size_t>(static_cast<int64_t>(distance));
  }

  template <class T>
  std::vector<T> array(Table table) const {
    const size_t begin = target(pointer_to(table));
    check(begin != 0);
    const size_t count = read<uint32_t>(begin - sizeof(uint32_t));
    check(begin <= bytes_.size() && count <= (bytes_.size() - begin) / sizeof(T));
    std::vector<T> elements(count);
    std::memcpy(elements.data(), bytes_.data() + begin, count * sizeof(T));
    return elements;
  }

  static void check(bool known) {
    TORCH_CHECK(known, "torch-slangc: this version of Slang serializes modules in a form that is not known here");
  }

 private:
  template <class T>
  T read(size_t at) const {
    check(at <= bytes_.size() && sizeof(T) <= bytes_.size() - at);
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }

  const std::string& bytes_;
  size_t tables_ = 0;
};

void set_pointer(std::string& fossil, size_t at, size_t target) {
  const int32_t distance =
      target == 0 ? 0 : static_cast<int32_t>(static_cast<int64_t>(target) - static_cast<int64_t>(at));
  std::memcpy(fossil.data() + at, &distance, sizeof(distance));
}

// Returns where the elements begin.
template <class T>
size_t append_array(const std::vector<T>& elements, std::string& fossil) {
  const size_t begin = (fossil.size() + sizeof(uint32_t) + 7) / 8 * 8;
  const uint32_t count = static_cast<uint32_t>(elements.size());
  fossil.resize(begin + count * sizeof(T), '\0');
  std::memcpy(fossil.data() + begin - sizeof(count), &count, sizeof(count));
  std::memcpy(fossil.data() + begin, elements.data(), count * sizeof(T));
  return begin;
}

}  // namespace

InstructionTable read_instructions(const std::string& bytes) {
  const Fossil fossil(bytes);
  InstructionTable table;
  table.instructions = fossil.array<InstructionTable::Instruction>(kInstructions);
  table.children = fossil.array<int64_t>(kChildren);
  table.references = fossil.array<int64_t>(kReferences);
  const auto pointers = fossil.array<int32_t>(kLocations);
  const size_t begin = fossil.target(fossil.pointer_to(kLocations));
  for (size_t i = 0; i < pointers.size(); ++i) {
    table.locations.push_back(static_cast<uint32_t>(fossil.target(begin + sizeof(int32_t) * i)));
  }
  size_t references = 0;
  for (const auto& instruction : table.instructions) references += 1 + instruction.operands;
  const size_t count = table.instructions.size();
  Fossil::check(table.children.size() == count && pointers.size() == count && table.references.size() == references);
  return table;
}

void write_instructions(const InstructionTable& table, std::string& bytes) {
  const Fossil fossil(bytes);
  const size_t tables = fossil.pointer_to(kInstructions);
  const auto pointer_to = [tables](Table which) { return tables + sizeof(int32_t) * which; };
  set_pointer(bytes, pointer_to(kInstructions), append_array(table.instructions, bytes));
  set_pointer(bytes, pointer_to(kChildren), append_array(table.children, bytes));
  set_pointer(bytes, pointer_to(kReferences), append_array(table.references, bytes));
  const size_t begin = append_array(std::vector<int32_t>(table.locations.size()), bytes);
  set_pointer(bytes, pointer_to(kLocations), begin);
  for (size_t i = 0; i < table.locations.size(); ++i) {
    set_pointer(bytes, begin + sizeof(int32_t) * i, table.locations[i]);
  }
}

}  // namespace torch_slang
