// Which functions change their arguments, and which methods their object. By name: all functions of a name count as one.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/source/source_code.h"
#include "compiler/source/type_declarations.h"

namespace torch_slang {

struct ChangingFunctions {
  // The indices of the `out` and `inout` parameters.
  std::map<std::string, std::set<size_t>, std::less<>> outs;
  Names methods;  // [mutating]

  void add(const SourceCode& code);
  void add(const ChangingFunctions& others);
  bool changes_argument(std::string_view function, size_t index) const;
};

}  // namespace torch_slang
