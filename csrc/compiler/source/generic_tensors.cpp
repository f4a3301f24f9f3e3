#include "compiler/source/generic_tensors.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "compiler/text/words.h"

namespace torch_slang {
namespace {

constexpr std::array<std::string_view, 3> kInterfaces = {"IDiffTensor", "IWDiffTensor", "IRWDiffTensor"};
constexpr std::array<std::string_view, 3> kModifiers = {"no_diff", "in", "const"};

// `name<...>(` or `name(`: its parameters open at `open`.
struct Head {
  size_t name, open;
};

std::optional<Head> head_of(const SourceCode& code, size_t open) {
  size_t end = open;
  if (code[open - 1] == ">") end = code.opening_angle(open - 1);
  if (end == 0 || !code.is_name(end - 1)) return {};
  return Head{end - 1, open};
}

struct Parameter {
  Span type;
  std::string name;  // of the type parameter
};

std::vector<Parameter> tensors_of(const SourceCode& code, const Head& head) {
  std::vector<Parameter> found;
  const size_t end = code.closing(head.open);
  for (size_t at = head.open + 1; at < end; ++at) {
    size_t begin = at;
    while (is_among(kModifiers, code[begin])) ++begin;
    if ((code[at - 1] != "(" && code[at - 1] != ",") || !is_among(kInterfaces, code[begin])) continue;
    const size_t behind = code.behind_angles(begin + 1);
    if (code[behind - 1] != ">" || !code.is_name(behind)) continue;
    found.push_back({{begin, behind}, c10::str("tsl_Tensor", found.size())});
    at = behind - 1;
  }
  return found;
}

template <class Do>
void for_each_head(const SourceCode& code, const Do& take) {
  for (size_t at = 1; at + 1 < code.size(); ++at) {
    if (code[at] != "(") continue;
    if (const auto head = head_of(code, at)) take(*head);
  }
}

// Whether functions in the source have such parameters.
bool takes_tensors(const SourceCode& code) {
  bool found = false;
  for_each_head(code, [&](const Head& head) { found = found || !tensors_of(code, head).empty(); });
  return found;
}

// Whether all overloads of each such function become generic.
bool may_be_generic(const std::vector<const SourceCode*>& sources) {
  std::map<std::string_view, int> changed, defined;  // how often functions of each name have a body
  for (const SourceCode* code : sources) {
    for_each_head(*code, [&](const Head& head) {
      if ((*code)[code->closing(head.open) + 1] != "{") return;
      const std::string_view name = (*code)[head.name];
      ++defined[name];
      if (!tensors_of(*code, head).empty()) ++changed[name];
    });
  }
  return !changed.empty() &&
         std::all_of(changed.begin(), changed.end(), [&](const auto& one) { return one.second == defined[one.first]; });
}

}  // namespace

bool is_differentiable_tensor_interface(std::string_view type) {
  return is_among(kInterfaces, type.substr(0, type.find('<')));
}

void make_tensors_generic(SourceCode& code) {
  for_each_head(code, [&](const Head& head) {
    std::string added;
    for (const Parameter& one : tensors_of(code, head)) {
      added += c10::str(added.empty() ? "" : ", ", one.name, " : ", code.text(one.type), " ");
      code.replace(one.type, one.name);
    }
    if (added.empty()) return;
    // Behind the generic parameters that are there, or as the only ones.
    const bool is_generic = head.open != head.name + 1;
    code.insert(is_generic ? head.open - 1 : head.open, is_generic ? ", " + added : "<" + added + ">");
  });
}

std::string with_generic_tensors(const std::string& source) {
  SourceCode code(source);
  make_tensors_generic(code);
  return code.edited();
}

GenericTensors generic_tensors(const std::vector<const SourceCode*>& sources, std::string_view own) {
  if (!may_be_generic(sources)) return GenericTensors::None;
  const auto changes = [&](const SourceCode* one) { return one->text() != own && takes_tensors(*one); };
  return std::any_of(sources.begin(), sources.end(), changes) ? GenericTensors::AllFiles : GenericTensors::OwnFile;
}

}  // namespace torch_slang
