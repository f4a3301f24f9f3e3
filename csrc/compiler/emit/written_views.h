// Which views a text loads from and stores to.
#pragma once

#include <set>
#include "compiler/ctext/emitted_code.h"
#include "program/program.h"

namespace torch_slang {

// Note [written views]
//   Which views a function loads from and stores to is read from its emitted text: which variables such a member, or an address, is
//   taken of, and which views have come there through assignments and calls. Structs are not told apart by fields, but for the contexts
//   of derivatives, which hold all views: where one of a struct's views is stored to, all of them count.
//     - The schema of an operator says which tensors it changes, and must be known before any kernel is compiled. A missed store
//       shows in the marks of the compiled kernel, which is then refused.
//     - Where a compiler leaves the number of a mark's view in a register (it inlined less, or a loop carries the view), the text
//       says which views that may be. So no kernel is refused for what a compiler did not find out.
// Whether some view's type, or [In], says nothing of it.
bool needs_written_views(const Function& function);

// From the forward's text, as the passes leave it. A function that gives nothing is refused.
void note_written_views(Function& function, const DeviceText& text);

// Numbers of the views that a text may load from, and store to, as they are: what is done to gradients by the prelude's own
// functions counts for nothing.
struct AccessedViews {
  std::set<int> loaded, stored;
};
AccessedViews accessed_views(const EmittedCode& code);

}  // namespace torch_slang
