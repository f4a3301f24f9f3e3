// Whether something sees calls before the dispatcher does: then they go the general way.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/TracerMode.h>

namespace torch_slang {

inline bool calls_are_watched() {
  return at::impl::torch_function_mode_enabled() || at::tracer::impl::is_dispatch_enabled();
}

}  // namespace torch_slang
