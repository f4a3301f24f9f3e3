// Text that users ask for by __requirePrelude stands at file scope, and often includes a header of theirs. Device texts are
// self-contained, so the header's text takes the place of the #include.
#pragma once

#include "compiler/source/source_files.h"
#include "program/program.h"

namespace torch_slang {

// In the text's file scope `#include "name"` of a file beside the request's, or in one of its include folders, is replaced by
// the file's text, each file once; other lines stay. The files go into the manifest.
void inline_headers(DeviceText& text, const CompileRequest& request, SourceFiles& files);

}  // namespace torch_slang
