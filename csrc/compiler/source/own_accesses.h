// Note [accesses of the user's own]
//   Our DiffTensorView has accesses that Slang's core has not: loadFixed, loadUniform, loadUniformOnce and their stores. A
//   source written for core may add some of these names itself, with another meaning (SlangPy's loadUniform is our loadFixed),
//   by an extension. Slang then takes ours wherever it fits as well, and says nothing. So the library is compiled without the
//   pairs that a source declares.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/source/source_code.h"

namespace torch_slang {

// If an extension of DiffTensorView in these files declares one of a pair, with an index: the macro that leaves the pair out.
std::set<std::string> own_accesses(const std::vector<const SourceCode*>& files);

}  // namespace torch_slang
