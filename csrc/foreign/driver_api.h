// The part of the CUDA driver's API that we use, from libcuda.so.1 found at run time. Declarations are our own, so that
// one build serves machines with and without CUDA; values are the driver's ABI and do not change. The library is never
// closed: other users of the driver live as long as the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "foreign/foreign_function.h"

namespace torch_slang {

using CudaResult = int;
using CudaDevice = int;
using CudaContext = struct CudaContextOpaque*;
using CudaModule = struct CudaModuleOpaque*;
using CudaFunction = struct CudaFunctionOpaque*;
using CudaStream = struct CudaStreamOpaque*;
using CudaEvent = struct CudaEventOpaque*;
using CudaAddress = uint64_t;  // of device memory

inline constexpr CudaResult kCudaSuccess = 0;

enum CudaDeviceAttribute : int {
  kCudaMaxThreadsPerBlock = 1,
  kCudaMaxBlockX = 2,  // y and z follow in both
  kCudaMaxGridX = 5,
  kCudaMultiprocessors = 16,
  kCudaCapabilityMajor = 75,
  kCudaCapabilityMinor = 76,
};

enum CudaFunctionAttribute : int {
  kCudaFunctionMaxThreads = 0,
  kCudaFunctionSharedBytes = 1,
  kCudaFunctionLocalBytes = 3,
  kCudaFunctionRegisters = 4,
  kCudaFunctionDynamicShared = 8,
};

enum CudaCaptureMode : int { kCudaCaptureRelaxed = 2 };
enum CudaStreamFlag : unsigned { kCudaStreamNonBlocking = 1 };  // it and the stream 0 do not wait for each other

// As the driver lays them out: CUlaunchAttribute and CUlaunchConfig.
struct CudaLaunchAttribute {
  int id = 0;
  int padding = 0;
  union {
    unsigned dimensions[3];
    char bytes[64];
  };
};
inline constexpr int kCudaClusterDimension = 4;

struct CudaLaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CudaStream stream;
  CudaLaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(CudaLaunchAttribute) == 72 && sizeof(CudaLaunchConfig) == 56, "the driver's layout");

struct DriverApi {
  template <class... Arguments>
  using Call = ForeignFunction<CudaResult(Arguments...)>;

  explicit DriverApi(DynamicLibrary opened);

  DynamicLibrary library;
  Call<unsigned> init{library, "cuInit"};
  Call<int*> driver_get_version{library, "cuDriverGetVersion"};
  Call<CudaResult, const char**> get_error_name{library, "cuGetErrorName"};
  Call<CudaResult, const char**> get_error_string{library, "cuGetErrorString"};
  Call<CudaDevice*, int> device_get{library, "cuDeviceGet"};
  Call<char*, int, CudaDevice> device_get_name{library, "cuDeviceGetName"};
  Call<int*, int, CudaDevice> device_get_attribute{library, "cuDeviceGetAttribute"};
  Call<CudaContext*, CudaDevice> primary_context_retain{library, "cuDevicePrimaryCtxRetain"};
  Call<CudaContext*> context_get_current{library, "cuCtxGetCurrent"};
  Call<CudaContext> context_set_current{library, "cuCtxSetCurrent"};
  Call<CudaModule*, const void*> module_load_data{library, "cuModuleLoadData"};
  Call<CudaFunction*, CudaModule, const char*> module_get_function{library, "cuModuleGetFunction"};
  Call<int*, int, CudaFunction> function_get_attribute{library, "cuFuncGetAttribute"};
  // Function, grid, block, bytes of dynamic shared memory, stream, pointers to the parameters, extra options.
  Call<CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**, void**>
      launch_kernel{library, "cuLaunchKernel"};
  Call<CudaFunction, int, int> function_set_attribute{library, "cuFuncSetAttribute"};
  // Blocks, function, threads a block, bytes of dynamic shared memory.
  Call<int*, CudaFunction, int, size_t> occupancy{library, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  // Map (128 bytes), element type, rank, address, sizes, strides in bytes but for the first dimension, box, steps between
  // elements, interleaving, swizzle, promotion in L2, the fill for elements outside. From CUDA 12.0 on.
  Call<void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int,
       int>
      tensor_map_encode{library, "cuTensorMapEncodeTiled", Need::Optional};
  // From CUDA 11.8 on.
  Call<const CudaLaunchConfig*, CudaFunction, void**, void**> launch_kernel_ex{library, "cuLaunchKernelEx",
                                                                               Need::Optional};
  Call<int*, CudaFunction, const CudaLaunchConfig*> cluster_occupancy{library, "cuOccupancyMaxActiveClusters",
                                                                      Need::Optional};
  Call<CudaStream, int*> stream_is_capturing{library, "cuStreamIsCapturing"};
  Call<CudaStream*, unsigned> stream_create{library, "cuStreamCreate"};
  Call<CudaStream> stream_synchronize{library, "cuStreamSynchronize"};
  Call<CudaStream> stream_destroy{library, "cuStreamDestroy_v2"};
  Call<void*, CudaAddress, size_t, CudaStream> copy_to_host{library, "cuMemcpyDtoHAsync_v2"};
  Call<CudaEvent*, unsigned> event_create{library, "cuEventCreate"};
  Call<CudaEvent, CudaStream> event_record{library, "cuEventRecord"};
  Call<CudaEvent> event_synchronize{library, "cuEventSynchronize"};
  Call<float*, CudaEvent, CudaEvent> event_elapsed_time{library, "cuEventElapsedTime"};
  Call<CudaEvent> event_destroy{library, "cuEventDestroy_v2"};
  Call<int*> exchange_capture_mode{library, "cuThreadExchangeStreamCaptureMode"};
  Call<CudaFunction> function_load{library, "cuFuncLoad", Need::Optional};  // from CUDA 12.4 on
};

// Opened and initialised at the first call. An error names the missing library, symbol or device.
const DriverApi& driver();

// CUDA version of the driver (13000), or 0 where there is none. Never throws.
int driver_version();

// "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)"
std::string describe_driver_error(CudaResult result, const char* call);

// Throws c10::Error "<what>: <describe_driver_error>".
void check_driver(CudaResult result, const char* call, const std::string& what);

}  // namespace torch_slang
