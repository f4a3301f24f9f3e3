#include "compiler/source/changing_functions.h"

#include <vector>

#include "compiler/source/function_heads.h"

namespace torch_slang {

void ChangingFunctions::add(const SourceCode& code) {
  outs["sincos"] = {1, 2};
  outs["modf"] = outs["frexp"] = {1};
  for (const FunctionHead& head : function_heads(code)) {
    if (head.has("mutating")) methods.emplace(code[head.name]);
    const std::vector<size_t> begins = parameter_begins(code, head.open);
    for (size_t index = 0; index < begins.size(); ++index) {
      size_t at = begins[index];
      while (code[at] == "no_diff") ++at;
      if (is_out(code[at])) outs[std::string(code[head.name])].insert(index);
    }
  }
}

void ChangingFunctions::add(const ChangingFunctions& others) {
  for (const auto& [name, indices] : others.outs) outs[name].insert(indices.begin(), indices.end());
  methods.insert(others.methods.begin(), others.methods.end());
}

bool ChangingFunctions::changes_argument(std::string_view function, size_t index) const {
  const auto found = outs.find(function);
  return found != outs.end() && found->second.count(index) > 0;
}

}  // namespace torch_slang
