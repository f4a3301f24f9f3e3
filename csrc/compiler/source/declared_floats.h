// Finds out from a source's tokens which names are floats, or vectors, matrices, arrays and views of floats. crash_hints asks.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

enum class FloatKind { None, Scalar, Vector, Matrix };  // None: no float, or not known

struct DeclaredFloat {
  FloatKind element = FloatKind::None;
  int indices = 0;  // to an element, of arrays and views
};
using DeclaredFloats = std::map<std::string_view, DeclaredFloat>;

struct SourceFunction {
  size_t name, begin, body,
      end;  // the name, the brackets that its parameters and body open with, and the one that closes that
  DeclaredFloats names;
};

// Words from `begin` to before `end` that are one operand.
struct Operand {
  size_t begin, end;
};

class SourceFloats {
 public:
  explicit SourceFloats(const SourceCode& code);

  const std::vector<SourceFunction>& functions() const { return functions_; }
  // The operands that end before, and begin at, a word.
  Operand before(size_t at) const;
  Operand from(size_t at) const;
  FloatKind kind(const SourceFunction& function, Operand operand) const;

 private:
  void declare(size_t begin, size_t end, bool parameters, DeclaredFloats& names) const;
  size_t declared_name(size_t type, DeclaredFloat& declared) const;
  FloatKind kind_of_type(std::string_view word) const;
  FloatKind kind_of_group(const SourceFunction& function, Operand group) const;

  const SourceCode& code_;
  std::vector<std::string_view> type_parameters_;
  DeclaredFloats fields_;
  std::vector<SourceFunction> functions_;
};

}  // namespace torch_slang
