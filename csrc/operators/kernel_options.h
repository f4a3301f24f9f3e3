// How the kernels of a module are compiled.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <optional>

#include "backend/backend.h"

namespace torch_slang {

struct KernelOptions {
  bool fast_math = false;
  std::optional<double> launch_limit;  // seconds that a launch on the CPU may take
  std::optional<bool> debug;  // all checks, or none; else indices are checked on the CPU alone

  Checks checks(c10::Device device) const {
    if (debug) return *debug ? Checks::All : Checks::None;
    return device.is_cpu() ? Checks::Bounds : Checks::None;
  }
  std::optional<std::chrono::duration<double>> limit() const {
    return launch_limit ? std::optional(std::chrono::duration<double>(*launch_limit)) : std::nullopt;
  }
  // Whether loops ask if they are to stop.
  bool polls(c10::Device device) const { return device.is_cpu() && (debug.value_or(false) || launch_limit); }
};

}  // namespace torch_slang
