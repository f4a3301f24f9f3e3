#include "specialise/view_text.h"

#include <cctype>

namespace torch_slang {
namespace {

// As the prelude names the type of a view's scalars: kFloat32.
std::string scalar_tag(ElementType type) {
  std::string name = name_of(type);
  const size_t capitals = name.starts_with("bf") || name.starts_with("ui") ? 2 : 1;
  for (size_t i = 0; i < capitals; ++i) name[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[i])));
  return "k" + name;
}

}  // namespace

std::string gradient_view_text(const std::string& view, ElementType type, int64_t components, int slots) {
  return "tsl::gradient(tsl::of_scalars(" + view + ", tsl::" + scalar_tag(type) + ", " + std::to_string(components) +
         "), " + std::to_string(slots) + ")";
}

}  // namespace torch_slang
