// What a kernel compiled with checks has found wrong, as an error that names the operator, the argument and the place.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/launch_watch.h"
#include "operators/arguments.h"
#include "prelude/abi.h"

namespace torch_slang {

// "an array of 3 elements". `kind`: a tsl::LocalKind of prelude/local_index.h.
std::string describe_local(unsigned kind, uint64_t count);

// Throws what stands for a launch, or another call, that was stopped. `what`: "slang::sqr: the launch".
[[noreturn]] void throw_stopped(const std::string& what, LaunchWatch::Reason reason, const KernelOptions& options,
                                const std::string& where = "");

class FaultRecord {
 public:
  // All must outlive this object. `names_threads`: whether messages say which thread it was, since the user knows of threads.
  FaultRecord(const Signature& op, OpKind kind, const Arguments& arguments, bool names_threads);

  // For TslHeader::fault; null where the kernel checks nothing and cannot be stopped.
  TslFault* address();
  // After the launch; waits for the device, unless its work is being captured. Throws an IndexError for an index that is outside, a LaunchError where the launch
  // was stopped, a RuntimeError for the rest.
  void check();

 private:
  std::string describe_line(const TslFault& fault) const;
  [[noreturn]] void refuse_long_loop(const TslFault& fault) const;
  [[noreturn]] void refuse_stopped(LaunchWatch::Reason reason) const;
  std::string describe_thread(const TslFault& fault) const;
  std::string describe_place(const TslFault& fault) const;
  std::string describe_view_fault(const TslFault& fault) const;
  std::string view_name(int view) const;

  const Signature& op_;
  const OpKind kind_;
  const Arguments& arguments_;
  const bool names_threads_;
  const bool exists_;
  TslFault here_ = {};
  at::Tensor on_gpu_;
  std::optional<LaunchWatch> watch_;
};

}  // namespace torch_slang
