// Texts for device compilers, and launches, written into the folder that TORCH_SLANG_RECORD names, if it does: so that two
// versions of this library can be compared by their results for the same programs (scripts/compare_records.py). A text is a file
// `<digest>.<target>`, a launch a line of `launches.<process>`; each is written once. Safe from any thread.
#pragma once

#include <c10/util/FunctionRef.h>

#include <string>

namespace torch_slang {

void record_text(const std::string& op, const char* target, std::string text);
// `shape` describes the launch, if that is to be written.
void record_launch(const std::string& op, const char* target, c10::function_ref<std::string()> shape);

}  // namespace torch_slang
