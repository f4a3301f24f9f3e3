// The kernels and functions of the modules that a module imports.
#pragma once

#include <slang.h>

#include <string>
#include <vector>

#include "compiler/reflect/describe.h"
#include "compiler/source/session.h"

namespace torch_slang {

// Note [imported functions]
//   Kernels of all modules that a module imports, directly or not, are its own too, and so are their plain functions that are
//   public. A name of the module itself goes first; a name of two imported modules is refused, since nothing says which is
//   meant. Host functions stay with the file that they are in. The wrapper of an imported function stands behind the text of the
//   module that has it, so it may name all that this module does.
void add_imported_functions(std::vector<DescribedFunction>& functions, slang::ISession* session,
                            const std::vector<Session::Import>& imports, const SourceOf& source_of);

}  // namespace torch_slang
