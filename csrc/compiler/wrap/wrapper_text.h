// Writes single lines of a generated entry point, for one function and one choice of its types and sizes.
#pragma once

#include <c10/util/StringUtil.h>

#include <functional>
#include <string>

#include "program/program.h"

namespace torch_slang {

class WrapperText {
 public:
  // Both must outlive this.
  WrapperText(const Function& function, const Instantiation& instantiation)
      : function_(function), instantiation_(instantiation) {}

  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += c10::str("    ", parts..., "\n");
  }
  // Behind the call of the user's function, wherever it has returned: recorded gradients are complete.
  void finish_records();
  // The lines as the body of the instantiation's entry point.
  std::string entry_point() const;

  // A type as the descriptor names it, with the types and sizes of this choice in lvalue of its parameters.
  std::string concrete(std::string type) const;
  ElementType component_type(const Element& element) const;
  std::string component_type_name(const Leaf& leaf) const;  // as Slang spells it: "float", "ns.Mode"

  // A statement that fetches one component of a kernel's value.
  std::string value(const Leaf& leaf, const std::string& lvalue, const std::string& component) const;

  // One statement for each component of a leaf, in row-major order: `write(index, component)` gets "[i0][i1]" and
  // "i0 * 3 + i1".
  void each_component(const Leaf& leaf,
                      const std::function<std::string(const std::string&, const std::string&)>& write);

 private:
  const Function& function_;
  const Instantiation& instantiation_;
  std::string text_;
};

std::string entry_name(const Instantiation& instantiation);

// A field of a struct, or an element of an array, whose name is its index.
std::string member(const std::string& lvalue, const Parameter& field);

}  // namespace torch_slang
