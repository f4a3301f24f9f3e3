// The compiled kernels of one operator, in memory. A kernel is compiled at first need, once, whichever threads ask; a
// failed compile is not remembered, so that a repaired environment works without a reload.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernel/kernel_key.h"
#include "kernel/loaded_kernel.h"
#include "signature/kernel_options.h"

namespace torch_slang {

struct KnownUse;
struct Signature;

// While it lives, kernels that this thread compiles for a forward have their backward compiled at the same time.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

// While it lives, the keys of the kernels that this thread asks for are noted.
class KernelRequests {
 public:
  KernelRequests();
  ~KernelRequests();
  KernelRequests(const KernelRequests&) = delete;
  KernelRequests& operator=(const KernelRequests&) = delete;
  const std::vector<KernelKey>& keys() const { return keys_; }

 private:
  friend class KernelTable;
  std::vector<KernelKey> keys_;
  KernelRequests* outer_;
};

// While it lives, kernels that this thread asks for are hidden from those who look at the table until somebody else asks.
class TrialKernels {
 public:
  TrialKernels();
  ~TrialKernels();
  TrialKernels(const TrialKernels&) = delete;
  TrialKernels& operator=(const TrialKernels&) = delete;
};

class KernelTable {
 public:
  explicit KernelTable(KernelOptions options) : options_(options) {}

  // The kernels that are ready and not hidden, in the order in which they were asked for.
  std::vector<std::pair<KernelKey, std::shared_ptr<const LoadedKernel>>> ready() const;

  // Compiles if need be; throws CompileError. `backward`: the key that a recorded forward is likely to be followed by.
  std::shared_ptr<const LoadedKernel> get(const Signature& op, const KernelKey& key,
                                          c10::function_ref<KernelKey()> backward = nullptr);
  // Starts compiling on a thread of its own unless that was done. A failure is forgotten: a later get meets it again.
  void prefetch(std::shared_ptr<const Signature> op, const KernelKey& key);

  // The first backward kernel for these types on this device, waiting for one being compiled; null if there is none, or if
  // it is `own`.
  std::shared_ptr<const LoadedKernel> any_backward(const std::vector<ElementType>& types, c10::Device device,
                                                   const KernelKey* own = nullptr);

 private:
  using Future = std::shared_future<std::shared_ptr<const LoadedKernel>>;
  struct Entry {
    KernelKey key;
    Future future;
    bool is_hidden;  // only trials have asked for it
  };
  Entry* find(const KernelKey& key);
  std::shared_ptr<const LoadedKernel> get_once(const Signature& op, const KernelKey& key,
                                               c10::function_ref<KernelKey()> backward);
  void fulfil(const Signature& op, const KernelKey& key, std::promise<std::shared_ptr<const LoadedKernel>>& promise);
  void forget(const KernelKey& key);
  // Checks add branches, which may hide from the compiler what the code otherwise shows, so that marks say too much. Then
  // those that count are the marks of the same kernel without checks.
  struct Compiled {
    std::shared_ptr<const Kernel> kernel;
    std::shared_ptr<const Kernel> facts;  // whose marks count
    VirtualThreads threads;
  };
  Compiled compile(const Signature& op, const KernelKey& key, const KnownUse& known) const;
  std::shared_ptr<const LoadedKernel> load(const Signature& op, const KernelKey& key);
  std::shared_ptr<const LoadedKernel> load_general(const Signature& op, const KernelKey& key, KnownUse known);
  std::shared_ptr<const LoadedKernel> load_narrowed(const Signature& op, const KernelKey& key);
  KnownUse known_before(const KernelKey& key);

  const KernelOptions options_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace torch_slang
