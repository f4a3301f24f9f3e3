// Text that users ask for by __requirePrelude stands at file scope, and often includes a header of theirs. Device texts are
// self-contained, so the header's text takes the place of the #include.
#pragma once

#include <string>
#include <vector>

#include "compiler/source/source_files.h"

namespace torch_slang {

// `#include "name"` of a file in one of the folders is replaced by its text, each file once; other lines stay. The files
// go into the manifest.
std::string with_headers(const std::string& text, const std::vector<std::string>& folders, SourceFiles& files);

}  // namespace torch_slang
