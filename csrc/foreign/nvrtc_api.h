// The part of NVRTC's API that we use. Declarations are our own (see driver_api.h). Loaded at the first compile and never
// closed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "foreign/foreign_function.h"

namespace torch_slang {

using NvrtcResult = int;
using NvrtcProgramHandle = struct NvrtcProgramOpaque*;

inline constexpr NvrtcResult kNvrtcSuccess = 0;
inline constexpr NvrtcResult kNvrtcCompilationFailed = 6;

struct NvrtcApi {
  template <class... Arguments>
  using Call = ForeignFunction<NvrtcResult(Arguments...)>;
  using Texts = const char* const*;

  explicit NvrtcApi(const std::string& path);

  std::optional<DynamicLibrary> builtins;  // held open: see nvrtc_api.cpp
  DynamicLibrary library;
  Call<int*, int*> version{library, "nvrtcVersion"};
  ForeignFunction<const char*(NvrtcResult)> get_error_string{library, "nvrtcGetErrorString"};
  Call<int*> get_architecture_count{library, "nvrtcGetNumSupportedArchs"};
  Call<int*> get_architectures{library, "nvrtcGetSupportedArchs"};
  // Program, source, its name, number of headers, headers, their names.
  Call<NvrtcProgramHandle*, const char*, const char*, int, Texts, Texts> create_program{library, "nvrtcCreateProgram"};
  Call<NvrtcProgramHandle*> destroy_program{library, "nvrtcDestroyProgram"};
  Call<NvrtcProgramHandle, int, Texts> compile_program{library, "nvrtcCompileProgram"};
  Call<NvrtcProgramHandle, size_t*> get_log_size{library, "nvrtcGetProgramLogSize"};
  Call<NvrtcProgramHandle, char*> get_log{library, "nvrtcGetProgramLog"};
  Call<NvrtcProgramHandle, size_t*> get_ptx_size{library, "nvrtcGetPTXSize"};
  Call<NvrtcProgramHandle, char*> get_ptx{library, "nvrtcGetPTX"};
  Call<NvrtcProgramHandle, size_t*> get_cubin_size{library, "nvrtcGetCUBINSize"};
  Call<NvrtcProgramHandle, char*> get_cubin{library, "nvrtcGetCUBIN"};
};

const NvrtcApi& nvrtc();  // throws as find_nvrtc does, or naming a missing symbol

// Throws c10::Error "<what>: nvrtcGetCUBIN: NVRTC_ERROR_INVALID_PROGRAM".
void check_nvrtc(NvrtcResult result, const char* call, const std::string& what);

struct NvrtcProgramDeleter {
  void operator()(NvrtcProgramHandle program) const { nvrtc().destroy_program(&program); }
};
using NvrtcProgram = std::unique_ptr<NvrtcProgramOpaque, NvrtcProgramDeleter>;

}  // namespace torch_slang
