// Where statements of a source end.
#pragma once

#include "compiler/source/source_code.h"

namespace torch_slang {

// Behind the statement that begins at `at`, with the statements in it.
size_t behind_statement(const SourceCode& code, size_t at);

}  // namespace torch_slang
