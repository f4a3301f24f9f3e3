// One running call of a host function: what the functions of TslHostTable act on. Lives on the caller's stack.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "backend/cpu/launch_watch.h"
#include "operators/operator.h"
#include "prelude/host_abi.h"

namespace torch_slang {

struct HostCall {
  std::function<const Operator&(const std::string&)> kernel;  // by the name that emitted text has for it; throws
  std::string name;  // "slang::multiply"
  c10::Device device;  // of new tensors
  std::exception_ptr error;  // what a function of the table has failed with
  const KernelOptions& options;
  unsigned stop = 0;  // Note [stopped launches] in prelude/polls.h
  std::optional<LaunchWatch> watch{};
};

const TslHostTable& host_table();

// How many TslComponents the emitted text has for an argument: one for a tensor, else one for each number.
int64_t host_components(const Leaf& leaf);

// A tensor as the emitted text holds it, with one reference of its own; and back, taking that reference.
void* give_tensor(at::Tensor tensor);
at::Tensor take_tensor(void* tensor);

}  // namespace torch_slang
