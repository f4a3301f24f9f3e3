// The part of NVRTC's API that we use. Declarations are our own (see driver_api.h). Loaded at the first compile and never
// closed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backend/cuda/foreign_function.h"

namespace torch_slang {

using NvrtcResult = int;
using NvrtcProgramHandle = struct NvrtcProgramOpaque*;

inline constexpr NvrtcResult kNvrtcSuccess = 0;
inline constexpr NvrtcResult kNvrtcCompilationFailed = 6;

struct NvrtcApi {
  explicit NvrtcApi(const std::string& path);

  std::optional<DynamicLibrary> builtins;  // held open: see nvrtc_api.cpp
  DynamicLibrary library;
  ForeignFunction<NvrtcResult(int* major, int* minor)> version{library, "nvrtcVersion"};
  ForeignFunction<const char*(NvrtcResult)> get_error_string{library, "nvrtcGetErrorString"};
  ForeignFunction<NvrtcResult(int* count)> get_architecture_count{library, "nvrtcGetNumSupportedArchs"};
  ForeignFunction<NvrtcResult(int* architectures)> get_architectures{library, "nvrtcGetSupportedArchs"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle*, const char* source, const char* name, int header_count, const char* const* headers,
                              const char* const* header_names)>
      create_program{library, "nvrtcCreateProgram"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle*)> destroy_program{library, "nvrtcDestroyProgram"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, int count, const char* const* options)> compile_program{library, "nvrtcCompileProgram"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, size_t*)> get_log_size{library, "nvrtcGetProgramLogSize"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, char*)> get_log{library, "nvrtcGetProgramLog"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, size_t*)> get_ptx_size{library, "nvrtcGetPTXSize"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, char*)> get_ptx{library, "nvrtcGetPTX"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, size_t*)> get_cubin_size{library, "nvrtcGetCUBINSize"};
  ForeignFunction<NvrtcResult(NvrtcProgramHandle, char*)> get_cubin{library, "nvrtcGetCUBIN"};
};

const NvrtcApi& nvrtc();  // throws as find_nvrtc does, or naming a missing symbol

// Throws c10::Error "<what>: nvrtcGetCUBIN: NVRTC_ERROR_INVALID_PROGRAM".
void check_nvrtc(NvrtcResult result, const char* call, const std::string& what);

struct NvrtcProgramDeleter {
  void operator()(NvrtcProgramHandle program) const { nvrtc().destroy_program(&program); }
};
using NvrtcProgram = std::unique_ptr<NvrtcProgramOpaque, NvrtcProgramDeleter>;

}  // namespace torch_slang
