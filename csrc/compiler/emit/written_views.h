// Which views of a plain function are stored to.
#pragma once

#include <set>
#include <string>

namespace torch_slang {

// Note [written views]
//   The schema of an operator says which tensors it changes, and must be known before any kernel is compiled. So the views that
//   a function stores to are read from its emitted text: which variables a store, or an address, is taken of, and which views
//   have come there through assignments and calls. Structs are not told apart by fields: where one of a struct's views is
//   stored to, all of them count. A missed store shows in the marks of the compiled kernel, which is then refused.

// Numbers of the views that the forward's text, as the passes leave it, may store to.
std::set<int> written_views(const std::string& body);

}  // namespace torch_slang
