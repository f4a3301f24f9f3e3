// What users ask for by __requirePrelude is text at file scope, often an #include of a header of theirs. Device texts are
// self-contained, so those headers are put in its place.
#pragma once

#include <string>
#include <vector>

#include "compiler/source/source_files.h"

namespace torch_slang {

// `#include "name"` of a file in one of the folders is replaced by its text, each file once; other lines stay. The files
// go into the manifest.
std::string with_headers(const std::string& text, const std::vector<std::string>& folders, SourceFiles& files);

}  // namespace torch_slang
