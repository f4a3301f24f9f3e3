// Which functions of a source a function may call, by their names.
#pragma once

#include <string>
#include <vector>

#include "compiler/source/declared_floats.h"

namespace torch_slang {

// Those among `functions` that an operator may run, itself included: each that is named in the body of one. `name`: the operator's,
// "area", "Circle_area" of a method, "area_float3" of an overload. All, if none has the name.
std::vector<SourceFunction> called_functions(const SourceCode& code, const std::vector<SourceFunction>& functions,
                                             const std::string& name);

}  // namespace torch_slang
