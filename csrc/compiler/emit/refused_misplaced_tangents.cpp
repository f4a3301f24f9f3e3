#include "compiler/emit/refused_misplaced_tangents.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "compiler/text/refused_text.h"

namespace torch_slang {
namespace {

constexpr std::string_view kAnyValue = "AnyValue", kPack = "packAnyValue", kUnpack = "unpackAnyValue", kWord = "field",
                           kTangent = "differential_";
constexpr int kBytesOfWord = 4;

// The number behind the prefix of a name: 16 in `AnyValue16`.
std::optional<int> number_behind(std::string_view prefix, std::string_view name) {
  int number = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The bytes of a pair's first part, by the bytes of the pair.
std::map<int, int> packed_pairs(const EmittedCode& code) {
  std::map<int, int> pairs;
  for (const EmittedFunction& function : code.functions()) {
    const auto bytes = number_behind(kPack, function.name);
    if (!bytes || function.parameters.empty()) continue;
    for (const EmittedStruct& one : code.structs()) {
      if (one.name != function.parameters[0].type || one.fields.size() != 2) continue;
      const auto first = number_behind(kAnyValue, code[one.fields[0].type.begin]);
      if (first && number_behind(kAnyValue, code[one.fields[1].type.begin])) pairs[*bytes] = *first;
    }
  }
  return pairs;
}

// The first word of the tangent that the function unpacks.
std::optional<int> first_word_of_tangent(const EmittedCode& code, const EmittedFunction& function) {
  std::optional<int> first;
  for_each_simple(function.body, [&](const EmittedStatement& statement) {
    if (!statement.assigned) return;
    const auto& [declares, left, operator_size, value] = *statement.assigned;
    bool is_tangent = false;
    for (size_t at = left.begin; at < left.end; ++at) is_tangent |= code[at].starts_with(kTangent);
    for (size_t at = value.begin; is_tangent && at < value.end; ++at) {
      const auto word = code.is_member(at) ? number_behind(kWord, code[at]) : std::nullopt;
      if (word) first = std::min(first.value_or(*word), *word);
    }
  });
  return first;
}

}  // namespace

void refuse_misplaced_tangents(const EmittedCode& code) {
  const std::map<int, int> pairs = packed_pairs(code);
  if (pairs.empty()) return;
  for (const EmittedFunction& function : code.functions()) {
    const auto bytes = number_behind(kUnpack, function.name);
    const auto pair = bytes ? pairs.find(*bytes) : pairs.end();
    if (pair == pairs.end()) continue;
    const auto word = first_word_of_tangent(code, function);
    if (!word || *word * kBytesOfWord == pair->second) continue;
    throw RefusedText{
        "a variable of an interface holds structs of different sizes, and Slang reads the tangents of the smaller ones "
        "from the wrong place; make the function generic over the type instead, `<S : I>`, or give the structs as many "
        "numbers"};
  }
}

}  // namespace torch_slang
