#include "compiler/wrap/wrapper_text.h"

#include <cctype>

#include "compiler/text/tokens.h"
#include "program/enumerations.h"

namespace torch_slang {
namespace {

constexpr int64_t kMaxUnrolled = 64;

}  // namespace

// Note [entry points by name]
//   Without [shader("compute")] the function is an entry point only where it is asked for as one. Slang would carry all
//   that have it through every text that it makes of the module: twenty functions would take four times as long.
std::string WrapperText::entry_point() const {
  return c10::str("[numthreads(1, 1, 1)] void ", entry_name(instantiation_), "()\n{\n", text_, "}\n");
}

std::string WrapperText::concrete(std::string type) const {
  for (size_t i = 0; i < function_.type_parameters.size(); ++i) {
    type = replace_identifier(type, function_.type_parameters[i].name, slang_name_of(instantiation_.types[i]));
  }
  for (size_t i = 0; i < function_.size_count(); ++i) {
    type = replace_identifier(type, function_.plain().size_parameters[i], std::to_string(instantiation_.sizes[i]));
  }
  return type;
}

ElementType WrapperText::component_type(const Element& element) const {
  return element.type_parameter >= 0 ? instantiation_.types[element.type_parameter] : element.type;
}

// An enumeration goes by its own name.
std::string WrapperText::component_type_name(const Leaf& leaf) const {
  const std::string scalar = slang_name_of(component_type(leaf.element));
  const std::string base = leaf.slang_type.substr(0, leaf.slang_type.find('['));
  const bool is_vector = base.starts_with("vector<") || base.starts_with("matrix<");
  return is_vector || leaf.element.type_parameter >= 0 ? scalar : concrete(base);
}

namespace {

// A multiple of 8 ends in three zero bits. Calls with other values are refused; device compilers learn it from a mask.
std::string known_zeros(const Leaf& leaf, const std::string& type) {
  const int64_t power = leaf.value().multiple_of & -leaf.value().multiple_of;
  const bool has_mask = power > 1 && type == slang_name_of(leaf.element.type);  // an enumeration has none
  return has_mask ? c10::str(" & ~", type, "(", power - 1, ")") : "";
}

}  // namespace

std::string WrapperText::value(const Leaf& leaf, const std::string& lvalue, const std::string& component) const {
  const std::string type = component_type_name(leaf);
  if (leaf.differentiable) {
    return c10::str(lvalue, " = __tsl_value<", type, ">(", leaf.value().slot, ", ", *leaf.value().pointer_slot, ", ",
                    component, ");");
  }
  return c10::str(lvalue, " = __tsl_slot<", type, ">(", leaf.value().slot, " + ", component, ")",
                  known_zeros(leaf, type), ";");
}

void WrapperText::each_component(const Leaf& leaf,
                                 const std::function<std::string(const std::string&, const std::string&)>& write) {
  std::vector<int64_t> shape = leaf.element.shape;
  int64_t count = 1;
  for (int64_t& size : shape) {
    if (size < 0) size = instantiation_.sizes[-1 - size];
    count *= size;
  }
  std::string loops, index, component = "0";
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::string name = c10::str("i", i);
    loops += c10::str(count <= kMaxUnrolled ? "[ForceUnroll] " : "", "for (int ", name, " = 0; ", name, " < ", shape[i],
                      "; ++", name, ") ");
    index += "[" + name + "]";
    component = i == 0 ? name : c10::str("(", component, ") * ", shape[i], " + ", name);
  }
  line(loops, write(index, component));
}

void WrapperText::finish_records() {
  for (const Leaf& leaf : function_.leaves) {
    if (!leaf.diff_view()) continue;
    switch (leaf.view().gathering().memory) {
      case GradientMemory::Own:
      case GradientMemory::Replicas: break;
      case GradientMemory::Records: line("__tsl_finish(", *leaf.diff_view(), ", ", leaf.view().copies, ");");
    }
  }
}

std::string entry_name(const Instantiation& instantiation) {
  std::string name = c10::str("tsl_", instantiation.function, "_", name_of(instantiation.direction));
  for (const ElementType type : instantiation.types) name += std::string("_") + name_of(type);
  for (const int64_t size : instantiation.sizes) name += c10::str("_", size);
  return name;
}

std::string member(const std::string& lvalue, const Parameter& field) {
  const bool is_index = std::isdigit(static_cast<unsigned char>(field.name[0])) != 0;
  return is_index ? lvalue + "[" + field.name + "]" : lvalue + "." + field.name;
}

}  // namespace torch_slang
