// Which functions of a module other modules may name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "compiler/source/source_code.h"

namespace torch_slang {

// Slang's rule, which reflection does not show: in a file that says nothing of visibility, and is no part of a declared module,
// all is public; elsewhere only what is declared `public`.
class VisibleNames {
 public:
  explicit VisibleNames(const SourceCode& code);  // which outlives it

  bool is_public(std::string_view function, int line) const;

 private:
  const SourceCode& code_;
  bool all_ = true;
};

}  // namespace torch_slang
