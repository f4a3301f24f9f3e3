// Makes Slang's emitted CUDA text fit to stand inside `struct Kernel : tsl::KernelBase { ... };`.
#pragma once

#include <string>

#include "program/program.h"

namespace torch_slang {

// The text needs a variable that a kernel object cannot have: a mutable global, or Slang's block of shader parameters.
struct UnsupportedGlobal {
  std::string name;
};

// Fills file_scope, body, files, barriers, waves and scattered_waves from the whole text that Slang emitted for one entry point. Throws
// UnsupportedGlobal, or RefusedText.
void shape_device_text(const std::string& emitted, DeviceText& text);

// Whether the text, filled before, does what depends on the thread that runs it, or on other threads.
bool depends_on_threads(const DeviceText& text);

}  // namespace torch_slang
