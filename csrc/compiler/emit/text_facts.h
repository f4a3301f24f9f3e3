// What the run-time must know of a device text, read from its tokens: comments and strings are no code, and a name that is
// the user's own has a number behind it.
#pragma once

#include "compiler/text/code.h"
#include "program/program.h"

namespace torch_slang {

// Fills barriers, waves, uses and sites from the body; barriers and waves from the file scope too.
void read_facts(const Code& file_scope, const Code& body, DeviceText& text);

// Whether the text, whose facts were read, does what depends on the thread that runs it, or on other threads of its
// block but by wave operations.
bool depends_on_threads(const Code& body, const DeviceText& text);

}  // namespace torch_slang
