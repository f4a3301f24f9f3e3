// What the declaration of a function in a source says: its name and the type that it returns.
#pragma once

#include <optional>
#include <string>

#include "compiler/source/differentiable_functions.h"

namespace torch_slang {

struct DeclaredFunction {
  std::string name;
  std::optional<std::string> type;  // empty: it returns nothing; none: the declaration is not understood
};

DeclaredFunction declared_function(const SourceCode& code, const DifferentiableFunction& function);

}  // namespace torch_slang
