#include "compiler/ir/instruction_table.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <string_view>

#include "compiler/ir/opcodes.h"

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
// FlatInstTable: pointers to arrays. Those of strings, and the literals behind them, stay as they are.
enum Table : size_t { kHeads, kChildren, kLocations, kReferences, kStringLengths, kCharacters, kLiterals };

struct Head {
  int32_t opcode;
  uint32_t operands;  // without the type
};

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
    if (begin == 0) return {};
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

std::vector<Instruction> read_instructions(const std::string& bytes) {
  const Fossil fossil(bytes);
  const auto heads = fossil.array<Head>(kHeads);
  const auto children = fossil.array<int64_t>(kChildren);
  const auto locations = fossil.array<int32_t>(kLocations);
  const auto references = fossil.array<int64_t>(kReferences);
  const auto lengths = fossil.array<int64_t>(kStringLengths);
  const auto characters = fossil.array<char>(kCharacters);
  const auto literals = fossil.array<int64_t>(kLiterals);
  Fossil::check(!heads.empty() && children.size() == heads.size() && locations.size() == heads.size());
  const size_t first_location = fossil.target(fossil.pointer_to(kLocations));
  std::vector<Instruction> instructions(heads.size());
  size_t reference = 0, string = 0, character = 0, literal = 0;
  for (size_t i = 0; i < heads.size(); ++i) {
    const size_t count = 1 + heads[i].operands;
    Fossil::check(count <= references.size() - reference);
    Instruction& one = instructions[i];
    one.opcode = heads[i].opcode;
    one.children = children[i];
    one.location = static_cast<uint32_t>(fossil.target(first_location + sizeof(int32_t) * i));
    one.references.assign(references.data() + reference, references.data() + reference + count);
    reference += count;
    // What constants hold is in tables of its own.
    if (one.opcode >= kBoolConstant && one.opcode <= kPointerConstant) {
      Fossil::check(literal < literals.size());
      one.value = literals[literal++];
    }
    if (one.opcode != kStringConstant && one.opcode != kBlobConstant) continue;
    Fossil::check(string < lengths.size() && static_cast<size_t>(lengths[string]) <= characters.size() - character);
    one.text.assign(characters.data() + character, static_cast<size_t>(lengths[string]));
    character += static_cast<size_t>(lengths[string++]);
  }
  Fossil::check(reference == references.size() && string == lengths.size() && literal == literals.size());
  return instructions;
}

void write_instructions(const std::vector<Instruction>& instructions, std::string& bytes) {
  std::vector<Head> heads;
  std::vector<int64_t> children, references;
  for (const Instruction& one : instructions) {
    heads.push_back({one.opcode, static_cast<uint32_t>(one.references.size() - 1)});
    children.push_back(one.children);
    references.insert(references.end(), one.references.begin(), one.references.end());
  }
  const size_t tables = Fossil(bytes).pointer_to(kHeads);
  const auto pointer_to = [tables](Table which) { return tables + sizeof(int32_t) * which; };
  set_pointer(bytes, pointer_to(kHeads), append_array(heads, bytes));
  set_pointer(bytes, pointer_to(kChildren), append_array(children, bytes));
  set_pointer(bytes, pointer_to(kReferences), append_array(references, bytes));
  const size_t begin = append_array(std::vector<int32_t>(instructions.size()), bytes);
  set_pointer(bytes, pointer_to(kLocations), begin);
  for (size_t i = 0; i < instructions.size(); ++i) {
    set_pointer(bytes, begin + sizeof(int32_t) * i, instructions[i].location);
  }
}

}  // namespace torch_slang
