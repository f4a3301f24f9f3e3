// The Slang module `torch_slang` (the repository's folder slang/). Its text is built into torch-slangc; beside the program
// lies the same, compiled by it to Slang's own form when it was built, which loads in a tenth of the time. That file begins
// with a digest of the text and of Slang's version: one of another build is not taken, and the text is compiled instead.
#pragma once

#include <string>
#include <string_view>

#include "common/embedded_text.h"

namespace torch_slang {

extern const EmbeddedText kSlangLibrary[];
extern const int kSlangLibraryCount;

inline constexpr const char* kLibraryModule = "torch_slang";

// The versions of Slang whose text the passes of emit/ are tested with. tests/golden has what the last of them writes.
inline constexpr std::string_view kTestedSlang[] = {"2026.12", "2026.14.1"};
// A sentence for the log if the version is another; else empty.
std::string untested_version(std::string_view slang_version);

const char* library_text(const std::string& file_name);  // null: there is no such file
// What `import torch_slang.mma;`, `import torch_slang.functions;` and `import slangpy;` ask for, in any folder: modules of their own,
// compiled where they are imported. Null if the path is none of ours.
const char* submodule_text(std::string_view path);
inline constexpr const char* kCompiledLibrary = "torch_slang.slang-module";
std::string library_digest(const std::string& slang_version);  // of the Slang compiler in use
std::string program_folder();  // where the running program lies

}  // namespace torch_slang
