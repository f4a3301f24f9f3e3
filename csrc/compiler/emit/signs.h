// Counts signs of what the passes must find in a text, as Slang wrote it: Note [passes] in passes.h. They are coarser than the
// forms that the passes look for.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// How often a pass must apply at least.
struct Signs {
  int entries = 0;  // entry points
  int cleared_contexts = 0;  // contexts of accesses to views that begin as something empty
  int lines = 0;  // 1 if a statement of the user's says where it stands
  int masks = 0;  // 1 if a function asks for the mask of the lanes
  int kept_iterations = 0;  // 1 if something is kept by the number of a loop's iteration
  int loops = 0;  // loops without a condition
  int sizes = 0;  // sizes and strides of views that are read
};

Signs signs_in(const EmittedCode& code);

}  // namespace torch_slang
