// Names made of types.
#pragma once

#include <string>
#include <vector>

namespace torch_slang {

// "float3_float" of {"vector<float,3>", "float"}: letters that a name may have.
std::string types_as_name(const std::vector<std::string>& types);

}  // namespace torch_slang
