#include "compiler/slang/library.h"

#include "common/files.h"
#include "common/hash.h"

namespace torch_slang {

std::string untested_version(std::string_view slang_version) {
  std::string tested;
  for (const std::string_view one : kTestedSlang) {
    if (slang_version == one) return "";
    tested += (tested.empty() ? "" : ", ") + std::string(one);
  }
  return "Slang " + std::string(slang_version) + " was not tested with this torch_slang (tested: " + tested +
         "): errors that it fixed or introduced may change the generated code and gradients";
}

const char* library_text(const std::string& file_name) {
  for (int i = 0; i < kSlangLibraryCount; ++i) {
    if (file_name == kSlangLibrary[i].name) return kSlangLibrary[i].text;
  }
  return nullptr;
}

const char* submodule_text(std::string_view path) {
  const auto asks_for = [&](std::string_view module) {
    return path.ends_with(module) && (path.size() == module.size() || path[path.size() - module.size() - 1] == '/');
  };
  if (asks_for("torch_slang/mma.slang")) return library_text("mma.slang");
  if (asks_for("torch_slang/functions.slang")) return library_text("functions.slang");
  return asks_for("slangpy.slang") ? library_text("slangpy.slang") : nullptr;
}

std::string library_digest(const std::string& slang_version) {
  Digest digest;
  digest.add(slang_version);
  for (int i = 0; i < kSlangLibraryCount; ++i) digest.add(kSlangLibrary[i].name).add(kSlangLibrary[i].text);
  return digest.hex();
}

std::string program_folder() { return parent_path(canonical_path("/proc/self/exe")); }

}  // namespace torch_slang
