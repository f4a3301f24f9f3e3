// The compiled kernels of one operator, in memory. A kernel is compiled at first need, once, whichever threads ask; a
// failed compile is not remembered, so that a repaired environment works without a reload.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "program/program.h"

namespace torch_slang {

struct KnownUse;
struct Operator;
enum class OpKind : int8_t;

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

// What a kernel is specialised for.
struct KernelKey {
  OpKind kind;
  uint64_t strided =
      0;  // bit k: view k is not contiguous, though its rank is known; the last bit: of all from there on
  bool independent = true;   // no written view overlaps another view or itself
  c10::Device device = c10::kCPU;
  std::vector<ElementType> types;  // by type parameter
  std::vector<int64_t> sizes;      // by size parameter, of a mapped function
  std::string variant;             // of a mapped function: MappedVariant::text
  VirtualThreads threads;
  uint64_t unwanted = 0;  // bit k: nobody wants the gradient that view k is
  std::array<uint32_t, 3> block = {0, 0, 0};  // the caller's, for which a kernel for any block has too many registers

  bool operator==(const KernelKey& other) const;
};

// What a kernel does with the gradient of one leaf.
struct GradientUse {
  bool taken = false;  // an element's gradient is taken and zero left behind: the kernel stores to the view
  bool added = false;  // it is added to atomically
  bool promised = false;  // an access to it promises to be alone
};

// A view's bit in the masks of KernelKey.
constexpr uint64_t view_bit(int view) { return uint64_t{1} << (view < 63 ? view : 63); }

// What the last launch was like, for those who look.
struct LastLaunch {
  std::atomic<uint64_t> threads{0};
  std::atomic<uint64_t> bytes{0};  // of its views, each element once
  std::atomic<bool> is_measured{false};  // its virtual threads were chosen by measurement
};

struct LoadedKernel {
  std::shared_ptr<const Kernel> kernel;
  VirtualThreads threads;  // that it was compiled with
  mutable LastLaunch last;
  std::vector<GradientUse> gradients;  // by leaf
  std::vector<int> scratch_outputs;  // Backward: outputs whose values the kernel reads back, so they need memory
  std::vector<bool> unused;  // Backward, by leaf: inputs whose values the kernel never looks at
  // Backward, by leaf: threads touch nothing but their own elements of the gradient, so it is stored whole, and an
  // output's is only read.
  std::vector<bool> own;
  std::vector<bool> far;  // by leaf: words serve no neighbours (Note [words])
};

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
  std::shared_ptr<const LoadedKernel> get(const Operator& op, const KernelKey& key,
                                          c10::function_ref<KernelKey()> backward = nullptr);
  // Starts compiling on a thread of its own unless that was done. A failure is forgotten: a later get meets it again.
  void prefetch(std::shared_ptr<const Operator> op, const KernelKey& key);

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
  std::shared_ptr<const LoadedKernel> get_once(const Operator& op, const KernelKey& key,
                                               c10::function_ref<KernelKey()> backward);
  void fulfil(const Operator& op, const KernelKey& key, std::promise<std::shared_ptr<const LoadedKernel>>& promise);
  void forget(const KernelKey& key);
  // Checks add branches, which may hide from the compiler what the code otherwise shows, so that marks say too much. Then
  // those that count are the marks of the same kernel without checks.
  struct Compiled {
    std::shared_ptr<const Kernel> kernel;
    std::shared_ptr<const Kernel> facts;  // whose marks count
    VirtualThreads threads;
  };
  Compiled compile(const Operator& op, const KernelKey& key, const KnownUse& known) const;
  std::shared_ptr<const LoadedKernel> load(const Operator& op, const KernelKey& key);
  std::shared_ptr<const LoadedKernel> load_general(const Operator& op, const KernelKey& key, KnownUse known);
  std::shared_ptr<const LoadedKernel> load_narrowed(const Operator& op, const KernelKey& key);
  KnownUse known_before(const KernelKey& key);

  const KernelOptions options_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace torch_slang
