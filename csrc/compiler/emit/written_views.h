// Which views of a plain function are stored to.
#pragma once

#include <set>
#include <string>

#include "program/program.h"

namespace torch_slang {

// Note [written views]
//   The schema of an operator says which tensors it changes, and must be known before any kernel is compiled. So the views that
//   a function stores to are read from its emitted text: which variables a store, or an address, is taken of, and which views
//   have come there through assignments and calls. Structs are not told apart by fields: where one of a struct's views is
//   stored to, all of them count. A missed store shows in the marks of the compiled kernel, which is then refused.

// Whether some view's type, or [In], says nothing of it.
bool needs_written_views(const Function& function);

// From the forward's text, as the passes leave it. A function that gives nothing is refused.
void note_written_views(Function& function, const DeviceText& text);

// Numbers of the views that the forward's text may store to.
std::set<int> written_views(const std::string& body);

}  // namespace torch_slang
