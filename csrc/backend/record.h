// What is given to device compilers and launched, written into the folder that TORCH_SLANG_RECORD names, if it does: so that two
// versions of this library can be compared by what they make of the same programs (scripts/compare_records.py). A text is a file
// `<digest>.<target>`, a launch a line of `launches.<process>`; each is written once. Safe from any thread.
#pragma once

#include <string>

#include "backend/backend.h"

namespace torch_slang {

void record_text(const std::string& op, const char* target, std::string text);
void record_launch(const std::string& op, const char* target, const LaunchShape& shape, uint64_t samples = 0);

}  // namespace torch_slang
