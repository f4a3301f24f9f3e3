// What of a module has a derivative: Slang annotates its functions and types.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "compiler/ir/module_edits.h"

namespace torch_slang {

class Annotations {
 public:
  explicit Annotations(const ModuleEdits& module);

  // The functions that Slang makes derivatives of.
  const std::set<int64_t>& differentiated() const { return differentiated_; }
  bool has_derivative(int64_t callee) const { return annotated_.count(callee) > 0; }
  bool is_differentiable(int64_t type) const;
  // That the type is IDifferentiable; -1 where the module has none.
  int64_t witness_of(int64_t type) const;
  bool is_address(int64_t type) const;

 private:
  const ModuleEdits& module_;
  std::set<int64_t> annotated_, differentiated_;
  std::map<int64_t, int64_t> witnesses_;
};

}  // namespace torch_slang
