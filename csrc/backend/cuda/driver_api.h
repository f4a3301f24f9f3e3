// The part of the CUDA driver's API that we use, from libcuda.so.1 found at run time. Declarations are our own, so that
// one build serves machines with and without CUDA; values are the driver's ABI and do not change. The library is never
// closed: other users of the driver live as long as the process.
#pragma once

#include <cstddef>
#include <string>

#include "backend/cuda/foreign_function.h"

namespace torch_slang {

using CudaResult = int;
using CudaDevice = int;
using CudaContext = struct CudaContextOpaque*;
using CudaModule = struct CudaModuleOpaque*;
using CudaFunction = struct CudaFunctionOpaque*;
using CudaStream = struct CudaStreamOpaque*;

inline constexpr CudaResult kCudaSuccess = 0;

enum CudaDeviceAttribute : int {
  kCudaMaxThreadsPerBlock = 1,
  kCudaMaxBlockX = 2,  // y and z follow
  kCudaMaxGridX = 5,   // y and z follow
  kCudaCapabilityMajor = 75,
  kCudaCapabilityMinor = 76,
};

enum CudaFunctionAttribute : int { kCudaFunctionMaxThreads = 0, kCudaFunctionRegisters = 4 };

enum CudaCaptureMode : int { kCudaCaptureRelaxed = 2 };

struct DriverApi {
  explicit DriverApi(DynamicLibrary opened);

  DynamicLibrary library;
  ForeignFunction<CudaResult(unsigned flags)> init{library, "cuInit"};
  ForeignFunction<CudaResult(int* version)> driver_get_version{library, "cuDriverGetVersion"};
  ForeignFunction<CudaResult(CudaResult, const char** name)> get_error_name{library, "cuGetErrorName"};
  ForeignFunction<CudaResult(CudaResult, const char** text)> get_error_string{library, "cuGetErrorString"};
  ForeignFunction<CudaResult(CudaDevice*, int ordinal)> device_get{library, "cuDeviceGet"};
  ForeignFunction<CudaResult(char* name, int size, CudaDevice)> device_get_name{library, "cuDeviceGetName"};
  ForeignFunction<CudaResult(int* value, int attribute, CudaDevice)> device_get_attribute{library, "cuDeviceGetAttribute"};
  ForeignFunction<CudaResult(CudaContext*, CudaDevice)> primary_context_retain{library, "cuDevicePrimaryCtxRetain"};
  ForeignFunction<CudaResult(CudaContext*)> context_get_current{library, "cuCtxGetCurrent"};
  ForeignFunction<CudaResult(CudaContext)> context_set_current{library, "cuCtxSetCurrent"};
  ForeignFunction<CudaResult(CudaModule*, const void* image)> module_load_data{library, "cuModuleLoadData"};
  ForeignFunction<CudaResult(CudaFunction*, CudaModule, const char* name)> module_get_function{library, "cuModuleGetFunction"};
  ForeignFunction<CudaResult(int* value, int attribute, CudaFunction)> function_get_attribute{library, "cuFuncGetAttribute"};
  ForeignFunction<CudaResult(CudaFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                             unsigned block_z, unsigned shared_bytes, CudaStream, void** parameters, void** extra)>
      launch_kernel{library, "cuLaunchKernel"};
  ForeignFunction<CudaResult(int* mode)> exchange_capture_mode{library, "cuThreadExchangeStreamCaptureMode"};
  ForeignFunction<CudaResult(CudaFunction)> function_load{library, "cuFuncLoad", Need::Optional};  // from CUDA 12.4 on
};

// Opened and initialised at the first call. An error says what is missing: the library, a symbol or a device.
const DriverApi& driver();

// CUDA version of the driver (13000), or 0 where there is none. Never throws.
int driver_version();

// "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)"
std::string describe_driver_error(CudaResult result, const char* call);

// Throws c10::Error "<what>: <describe_driver_error>".
void check_driver(CudaResult result, const char* call, const std::string& what);

}  // namespace torch_slang
