#include "foreign/driver_api.h"

#include <c10/util/Exception.h>

#include <utility>

namespace torch_slang {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

const DriverApi* open_driver() {
  std::string reason;
  auto library = DynamicLibrary::try_open(kDriverLibrary, &reason);
  TORCH_CHECK(library.has_value(), "running Slang kernels on CUDA tensors needs NVIDIA's driver, but ", kDriverLibrary,
              " cannot be loaded: ", reason);
  auto api = std::make_unique<DriverApi>(*std::move(library));
  const CudaResult result = api->init(0);
  if (result != kCudaSuccess) {
    const char* name = nullptr;
    api->get_error_name(result, &name);
    TORCH_CHECK(false, "NVIDIA's driver does not start: cuInit: ", name != nullptr ? name : "unknown error");
  }
  return api.release();  // never destroyed
}

}  // namespace

DriverApi::DriverApi(DynamicLibrary opened) : library(std::move(opened)) {}

const DriverApi& driver() {
  static const DriverApi* const api = open_driver();  // tried again at the next call if it throws
  return *api;
}

int driver_version() {
  try {
    int version = 0;
    return driver().driver_get_version(&version) == kCudaSuccess ? version : 0;
  } catch (const c10::Error&) {
    return 0;
  }
}

std::string describe_driver_error(CudaResult result, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver().get_error_name(result, &name);
  driver().get_error_string(result, &text);
  return c10::str(call, ": ", name != nullptr ? name : "unknown error ", name != nullptr ? "" : std::to_string(result),
                  " (", text != nullptr ? text : "no description", ")");
}

void check_driver(CudaResult result, const char* call, const std::string& what) {
  TORCH_CHECK(result == kCudaSuccess, what, ": ", describe_driver_error(result, call));
}

}  // namespace torch_slang
