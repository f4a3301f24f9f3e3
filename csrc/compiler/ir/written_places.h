// Where instructions write, and how a write to a part of an element becomes one to a copy of the element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/module_edits.h"

namespace torch_slang {

class WrittenPlaces {
 public:
  explicit WrittenPlaces(ModuleEdits& module);

  // The operands through which an instruction changes memory.
  std::vector<size_t> written_operands(int64_t at) const;
  // The addresses from a variable, or an `out` or `inout` parameter, to a place in it; empty where the place is in no such, or
  // is all of it.
  std::vector<int64_t> steps_to(int64_t place) const;
  // A store to components, `v[i].zx = ...`, has the address of the whole vector.
  bool stores_components(int64_t at) const;

  // `b[i][j] = v;` becomes `T t = b[i]; t[j] = v; b[i] = t;`, in each element that the place lies in. Nothing is changed where a call
  // is given several places, which may lie in one element.
  void take_apart(int64_t at);

 private:
  int32_t type_of(int64_t value) const;
  bool is_changed_by_callee(int64_t value) const;
  int64_t load(int64_t at, int64_t place);

  ModuleEdits& module_;
  int64_t no_type_ = -1;  // of stores
};

// The type of the value that an address points to.
int64_t type_at(const ModuleEdits& module, int64_t address);

}  // namespace torch_slang
