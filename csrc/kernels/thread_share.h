// What a thread of a launch has of each view, from the shapes alone: its own elements, and those that it shares with the
// threads along some axes. Note [own elements] in prelude/own.h and Note [vector accesses] in prelude/vector_access.h live on it.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "kernels/shape_plan.h"

namespace torch_slang {

struct ThreadShare {
  std::vector<ShareDim> dims;  // empty: nothing is known
  std::string refusal;  // why no thread has these elements to itself; empty if it has
  std::vector<int> missing;  // axes of the launch along which threads have the same elements
  int64_t numbers = 1;  // of all its elements together
  // How many of them follow each other in a contiguous tensor, up to where those of the next thread along x begin; 0 if it
  // is not they that follow.
  int64_t run = 0;
};

// Of a view.
ThreadShare thread_share(const Function& function, const ShapePlan& shapes, int leaf);

}  // namespace torch_slang
