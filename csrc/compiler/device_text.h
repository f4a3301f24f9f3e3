// Makes Slang's emitted CUDA text fit to stand inside `struct Kernel : tsl::KernelBase { ... };`.
#pragma once

#include <string>

#include "program/program.h"

namespace torch_slang {

// Fills file_scope, body, barriers and waves from the whole text that Slang emitted for one entry point.
void shape_device_text(const std::string& emitted, DeviceText& text);

}  // namespace torch_slang
