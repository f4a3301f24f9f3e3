// The compiled kernels of one operator, in memory. A kernel is compiled at first need, once, whichever threads ask; a
// failed compile is not remembered, so that a repaired environment works without a reload. Any thread may call.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/once_each.h"
#include "operators/call_context.h"
#include "specialise/kernel_key.h"
#include "specialise/loaded_kernel.h"

namespace torch_slang {

class KernelTable {
 public:
  using Loaded = std::shared_ptr<const LoadedKernel>;
  // Compiles and loads. Is called by whichever thread asks first, and by threads that compile ahead.
  using Load = std::function<Loaded(const KernelKey& key, const CallContext& context)>;

  // `owner`: gives what keeps this table alive, for threads that compile ahead.
  KernelTable(Load load, std::function<std::shared_ptr<const void>()> owner)
      : load_(std::move(load)), owner_(std::move(owner)) {}

  // The kernels that are ready and not hidden, in the order in which they were asked for.
  std::vector<std::pair<KernelKey, Loaded>> ready() const;

  // Compiles if need be; throws CompileError.
  Loaded get(const KernelKey& key, const CallContext& context) {
    return get(key, context, [] {});
  }
  // `prefetch_others`: is called before the kernel is compiled, by the first call that asks for it and is no trial.
  Loaded get(const KernelKey& key, const CallContext& context, c10::function_ref<void()> prefetch_others);

  // Starts compiling on a thread of its own unless that was done. A failure is forgotten: a later get meets it again.
  void prefetch(const KernelKey& key, const CallContext& context);

  // The first backward kernel for these types on this device, waiting for one being compiled; null if there is none, or if
  // it is `own`.
  Loaded any_backward(const std::vector<ElementType>& types, c10::Device device, const KernelKey* own = nullptr);

 private:
  struct Note {
    bool is_hidden = true;  // only trials have asked for it
  };

  const Load load_;
  const std::function<std::shared_ptr<const void>()> owner_;
  OnceEach<KernelKey, Loaded, Note> kernels_;
};

}  // namespace torch_slang
