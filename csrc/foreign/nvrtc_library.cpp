#include "foreign/nvrtc_library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "common/dynamic_library.h"
#include "common/environment.h"
#include "common/files.h"
#include "foreign/driver_api.h"

namespace torch_slang {
namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

// The folder of torch's libraries: that of libc10, which we are linked with.
std::string torch_library_folder() {
  Dl_info facts{};
  const auto* inside = reinterpret_cast<const void*>(&c10::GetExceptionString);
  if (::dladdr(inside, &facts) == 0 || facts.dli_fname == nullptr) return ".";
  return parent_path(canonical_path(facts.dli_fname));
}

void append_split(const std::string& list, std::vector<std::string>& folders) {
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(':', start), list.size());
    if (end > start) folders.push_back(list.substr(start, end - start));
    start = end + 1;
  }
}

std::vector<std::string> folders_to_search() {
  std::vector<std::string> folders;
  const std::string torch = torch_library_folder();
  folders.push_back(torch);
  const std::string nvidia = join_path(parent_path(parent_path(torch)), "nvidia");  // site-packages/nvidia
  for (const std::string& package : list_folder(nvidia))
    folders.push_back(join_path(join_path(nvidia, package), "lib"));
  append_split(environment_or("LD_LIBRARY_PATH", ""), folders);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto home = environment(variable)) folders.push_back(join_path(*home, "lib64"));
  }
  for (const char* place :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}) {
    folders.emplace_back(place);
  }
  return folders;
}

// 13 of "/path/libnvrtc.so.13.0.88"; 0 if the name does not tell.
int major_version(const std::string& path) {
  constexpr std::string_view kSuffix = ".so.";
  const size_t at = path.rfind(kSuffix);
  return at == std::string::npos ? 0 : std::atoi(path.c_str() + at + kSuffix.size());
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> candidates;
  if (const auto chosen = environment("TORCH_SLANG_NVRTC")) candidates.push_back(*chosen);
  for (const char* name : kNames) {
    if (const auto loaded = DynamicLibrary::already_loaded(name)) candidates.push_back(loaded->path());
  }
  const std::vector<std::string> folders = folders_to_search();
  for (const std::string& folder : folders) {
    for (const char* name : kNames) {
      const std::string path = join_path(folder, name);
      if (is_file(path)) candidates.push_back(path);
    }
  }
  if (candidates.empty()) {
    for (const char* name : kNames) {  // wherever else the loader looks: this loads it
      if (const auto found = DynamicLibrary::try_open(name)) candidates.push_back(found->path());
    }
  }
  return candidates;
}

std::string find_nvrtc() {
  const int driver_major = driver_version() / 1000;
  std::string unusable;
  for (const std::string& path : nvrtc_candidates()) {
    if (driver_major == 0 || major_version(path) <= driver_major) return path;
    unusable = path;
  }
  TORCH_CHECK(unusable.empty(), "the driver of this machine supports CUDA ", driver_major,
              ", but the only NVRTC found is ", unusable, ": install the one of CUDA ", driver_major,
              ", or name it in TORCH_SLANG_NVRTC");
  TORCH_CHECK(false, "compiling Slang kernels for CUDA needs NVRTC (", kNames[0], " or ", kNames[1],
              "), which was not found in the process, beside torch in ", torch_library_folder(),
              ", in LD_LIBRARY_PATH, CUDA_HOME or /usr/local/cuda: `pip install nvidia-cuda-nvrtc` brings it, and "
              "TORCH_SLANG_NVRTC can name it");
}

}  // namespace torch_slang
