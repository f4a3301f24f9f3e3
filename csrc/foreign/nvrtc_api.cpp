#include "foreign/nvrtc_api.h"

#include <c10/util/Exception.h>

#include "common/files.h"
#include "common/log.h"
#include "foreign/nvrtc_library.h"

namespace torch_slang {
namespace {

// NVRTC opens its builtins by name alone, and the one of CUDA 13.0's wheel has no search path of its own. A library that
// is already loaded under that name is found, so it is loaded first, from beside NVRTC.
std::optional<DynamicLibrary> open_builtins(const std::string& nvrtc_path) {
  const std::string folder = parent_path(canonical_path(nvrtc_path));
  for (const std::string& name : list_folder(folder)) {
    if (name.rfind("libnvrtc-builtins.so.", 0) == 0) return DynamicLibrary::try_open(join_path(folder, name));
  }
  return std::nullopt;
}

const NvrtcApi* open_nvrtc() {
  const std::string path = find_nvrtc();
  log_info("using ", path);
  return new NvrtcApi(path);  // never destroyed
}

}  // namespace

NvrtcApi::NvrtcApi(const std::string& path) : builtins(open_builtins(path)), library(DynamicLibrary::open(path)) {}

const NvrtcApi& nvrtc() {
  static const NvrtcApi* const api = open_nvrtc();  // tried again at the next call if it throws
  return *api;
}

void check_nvrtc(NvrtcResult result, const char* call, const std::string& what) {
  TORCH_CHECK(result == kNvrtcSuccess, what, ": ", call, ": ", nvrtc().get_error_string(result));
}

}  // namespace torch_slang
