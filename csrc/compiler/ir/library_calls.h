// Calls of the library's functions that are put into a module's instructions.
//
// Note [calls of the library]
//   What a function of the library is called by in a module is found in functions that are appended to the module's source
//   (kLibraryCalls): each calls them for one type. Other types, and type parameters of generic functions, have calls that are made
//   like these.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/module_edits.h"

namespace torch_slang {

// Code at the end of a module's source. Without `internal`, which would make all else internal too.
extern const char* const kLibraryCalls;

class LibraryCalls {
 public:
  enum Function { Quotient, Remainder, Kept, Copy };

  // A function specialized for a type. Its last parameter has `last_type`: the type itself, or the type of its addresses.
  struct Callee {
    int64_t function;
    int64_t last_type;
  };

  explicit LibraryCalls(ModuleEdits& module);

  // The function that a call at `at` calls. Null if the type is no float, and no vector or matrix of floats.
  std::optional<Callee> callee(Function function, int64_t type, int64_t at);
  // The function `tsl_copy` for a type; the witness says that the type is IDifferentiable.
  Callee copy_callee(int64_t type, int64_t witness, int64_t at);

  bool has_name(int64_t at, std::string_view name) const;
  int64_t no_type() const { return no_type_; }  // of calls without a value

 private:
  using Numbers = std::map<int64_t, int64_t>;
  using Key = std::pair<Function, int64_t>;
  // A call of the library's, of a type parameter, or of vectors or matrices of one.
  struct Model {
    int64_t type;
    int64_t callee;  // specialized, its last operand the type's witness of IFloat
    int64_t last_type;
  };

  int64_t parent(int64_t at) const { return parents_[static_cast<size_t>(at)]; }
  int64_t last_operand(int64_t at) const { return module_.operand(at, module_.operands(at) - 1); }
  void note(int64_t call);
  int32_t shape_of(int64_t type) const;
  int64_t element_of(int64_t type) const { return shape_of(type) == 0 ? type : module_.operand(type, 0); }
  const Callee& specialize(const Key& key, const Model& model, Numbers replaced, int64_t at);
  std::optional<Numbers> replacements(const Model& model, int64_t type, int64_t at) const;
  std::optional<int64_t> witness_at(int64_t call) const;
  std::optional<int64_t> witness_of(int64_t element) const;
  int64_t replaced_in(int64_t at, int64_t position, Numbers& replaced);
  int64_t outermost(int64_t at, int64_t block) const;

  ModuleEdits& module_;
  const std::vector<int64_t> parents_;
  std::map<Key, Model> models_;  // by shape
  std::map<int64_t, int64_t> witnesses_;  // by type of elements
  std::map<Key, Callee> specialized_;  // by type
  int64_t witness_type_ = -1;
  int64_t no_type_ = -1;
};

}  // namespace torch_slang
