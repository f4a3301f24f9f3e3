// Arguments of elementwise functions that the loop makes, in place of tensors (torch_slang/generators.py).
//
// Note [generated arguments]
//   Module::generating makes an operator for each set of such arguments: their leaves are GeneratedLeaf, and SymInt[] in
//   the schemas, where others are tensors. So a transform or a trace sees sizes and numbers, and no tensor. The list has
//     the rank of the call, and its sizes; under vmap the rank and the sizes of one sample's call
//     the kind: 0, a place; 1, a hash; 2, a random number
//     of a place, for each component: begin, end, offset, stride: offset + stride * (the place along the call's dimensions
//     begin, ..., end - 1 as if they were one; 0 if there are none)
//     of the others what their slots hold: Note [generated elements] in prelude/map_generated.h
//   They have no gradient and a tangent of zero.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "source/kernel_source.h"

namespace torch_slang {

struct Generated {
  c10::SymDimVector shape;
  MapView::Access access = MapView::Access::Place;
  std::vector<c10::SymInt> words;  // the list's, behind the kind

  size_t rank() const { return shape.size(); }
  std::vector<uint64_t> slots() const;  // the values of the leaf's slots in the argument block
};

// Throws, naming the operator, where the list is no such.
Generated read_generated(const std::string& op, const Leaf& leaf, const c10::IValue& list);

}  // namespace torch_slang
