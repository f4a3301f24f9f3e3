#include "compiler/reflect/type_names.h"

#include <algorithm>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

// "float3" of "vector<float,3>", "float2x4" of "matrix<float,2,4>".
std::string short_name(std::string type) {
  for (const char* generic : {"vector<", "matrix<"}) {
    if (!type.starts_with(generic) || type.find('>') != type.size() - 1) continue;
    type = type.substr(7, type.size() - 8);
    const auto first = type.find(',');
    if (first != std::string::npos) type.erase(first, 1);
    std::replace(type.begin(), type.end(), ',', 'x');
  }
  return type;
}

}  // namespace

std::string types_as_name(const std::vector<std::string>& types) {
  std::string name;
  for (const std::string& type : types) {
    if (!name.empty() && name.back() != '_') name += '_';
    for (const char c : short_name(type)) {
      if (is_word(c)) name += c;
      if (!is_word(c) && !name.empty() && name.back() != '_') name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

}  // namespace torch_slang
