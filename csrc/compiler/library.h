// The Slang module `torch_slang` (the repository's folder slang/). Its text is built into torch-slangc; beside the program
// lies the same, compiled by it to Slang's own form when it was built, which loads in a tenth of the time. The file's name
// tells text and version of Slang, so that one of another build is not taken; without it the text is compiled.
#pragma once

#include <string>

#include "common/embedded_text.h"

namespace torch_slang {

extern const EmbeddedText kSlangLibrary[];
extern const int kSlangLibraryCount;

inline constexpr const char* kLibraryModule = "torch_slang";

const char* library_text(const std::string& file_name);  // null: there is no such file
// Path of the compiled library in a folder. `slang_version`: of the Slang compiler in use.
std::string compiled_library_path(const std::string& folder, const std::string& slang_version);
std::string program_folder();  // where the running program lies

}  // namespace torch_slang
