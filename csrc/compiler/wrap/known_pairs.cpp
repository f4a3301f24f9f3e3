#include "compiler/wrap/known_pairs.h"

#include <c10/util/StringUtil.h>

#include <set>

namespace torch_slang {
namespace {

// Of generic functions the types are not known here.
bool has_types(const DescribedFunction& described) {
  const Function& function = described.function;
  return function.refusal.empty() && function.has_forward_derivative && function.type_parameters.empty() &&
         function.size_count() == 0;
}

}  // namespace

std::string known_pairs(const std::map<std::string, DescribedFunction>& functions, const std::string& imported_from) {
  std::set<std::string> types = {"double", "float", "half"};
  for (const auto& [name, described] : functions) {
    if (described.imported_from != imported_from || !has_types(described)) continue;
    if (described.call.returned.paired) types.insert(described.call.returned.type);
    for (const PassedValue& value : described.call.parameters) {
      if (value.paired) types.insert(value.type);
    }
  }
  std::string head;
  int count = 0;
  for (const std::string& type : types) {
    head += c10::str(count == 0 ? "" : ", ", "DifferentialPair<", type, "> tsl_p", count);
    ++count;
  }
  return "[Differentiable] void tsl_known_pairs(" + head + ") {}\n";
}

}  // namespace torch_slang
