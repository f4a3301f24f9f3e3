// The structs and interfaces that a source declares, read from its tokens: what Note [undeclared structs] asks of them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

using Names = std::set<std::string, std::less<>>;

struct TypeDeclaration {
  std::string name;
  size_t line = 0;
  bool is_interface = false;
  bool is_differentiable = false;  // it says IDifferentiable, or has a Differential of its own
  bool is_local = false;  // declared in a function
  bool has_floats = false;  // a field that may have a derivative, or a requirement that has one
  bool has_views = false;  // a field that is a tensor, a texture or the like
  Names bases;  // what stands behind its colon
  Names field_types;
  // Positions of tokens: its name, the colon of its bases if it has one, where the bases end, and the braces.
  size_t at = 0, colon = 0, bases_end = 0, open = 0, close = 0;
  // Type parameters without a constraint that a field has.
  std::vector<size_t> free_parameters;
  // Whether values of it may have a derivative only for some types: a type parameter is constrained, but not to numbers.
  bool is_constrained = false;
};

// In their order, those inside of others too.
std::vector<TypeDeclaration> type_declarations(const SourceCode& code);

// What may have a derivative by itself: `float`, `double3`, `half2x2`, `vector`.
bool is_float_type(std::string_view word);
bool is_view_type(std::string_view word);

}  // namespace torch_slang
