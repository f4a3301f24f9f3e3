// The host functions of one module ([TorchEntryPoint] in Slang): their descriptors, and how they run. Their C++ is compiled at
// the first call of any; their dispatches launch the module's own operators. Any thread may call.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/dynamic_library.h"
#include "common/once_each.h"
#include "operators/operator.h"
#include "prelude/host_abi.h"
#include "program/program.h"

namespace torch_slang {

class HostFunctions {
 public:
  using Operators = std::map<std::string, std::shared_ptr<Operator>>;

  HostFunctions(std::string ns, std::shared_ptr<const Program> program, const Operators& operators,
                KernelOptions options);

  std::vector<std::string> names() const;
  const HostFunction& find(const std::string& name) const;  // throws, naming those that there are

  // Arguments and results are components: for each leaf a tensor, or its numbers, row by row. New tensors are made on the
  // tensors' device; where no tensor is given, on `device`, else on CUDA if there is any. Nothing is recorded for autograd.
  std::vector<c10::IValue> call(const std::string& name, const std::vector<c10::IValue>& arguments,
                                std::optional<c10::Device> device) const;

  // The kernel that emitted text calls `emitted`, for a dispatch in `caller`. Throws if there is none.
  const Operator& kernel(const std::string& emitted, const std::string& caller) const;

 private:
  TslHostEntry* entry(const HostFunction& function) const;

  const std::string ns_;
  const std::shared_ptr<const Program> program_;
  const Operators operators_;
  const KernelOptions options_;
  mutable OnceEach<std::monostate, std::shared_ptr<const DynamicLibrary>> library_;
};

}  // namespace torch_slang
