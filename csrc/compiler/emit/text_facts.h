// What the run-time must know of a device text, read from its tokens: comments and strings are no code, and a name that is
// the user's own has a number behind it.
#pragma once

#include "compiler/text/code.h"
#include "program/program.h"

namespace torch_slang {

// Fills barriers, waves, uses and sites from the body, as tokens, and from file_scope.
void read_facts(const Code& body, DeviceText& text);

// Whether the text, read before, does what depends on the thread that runs it, or on other threads of its
// block but by wave operations.
bool depends_on_threads(const DeviceText& text);

}  // namespace torch_slang
