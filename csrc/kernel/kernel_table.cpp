#include "kernel/kernel_table.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <utility>

#include "common/interrupts.h"
#include "kernel/specialize.h"
#include "signature/signature.h"

namespace torch_slang {

namespace {

thread_local int recording_depth = 0;
thread_local int trial_depth = 0;
thread_local KernelRequests* innermost_requests = nullptr;

// Compiles nobody waits for yet. The process does not end before they do, or they would find its libraries gone.
class BackgroundThreads {
 public:
  static BackgroundThreads& instance() {
    static auto* threads = [] {
      auto* made = new BackgroundThreads;
      std::atexit([] { instance().join(); });
      return made;
    }();
    return *threads;
  }

  // A thread keeps its stack until somebody has waited for it: for those that have ended, that is done here. `work` goes
  // when it is done, with all that it holds.
  void start(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(threads_, [](const std::future<void>& thread) {
      return thread.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    threads_.push_back(
        std::async(std::launch::async, [work = std::move(work)]() mutable { std::exchange(work, nullptr)(); }));
  }

 private:
  void join() {
    std::vector<std::future<void>> threads;  // which wait when they go
    const std::lock_guard<std::mutex> lock(mutex_);
    threads.swap(threads_);
  }

  std::mutex mutex_;
  std::vector<std::future<void>> threads_;
};

void run_in_background(std::function<void()> work) { BackgroundThreads::instance().start(std::move(work)); }

}  // namespace

RecordingScope::RecordingScope() { ++recording_depth; }
RecordingScope::~RecordingScope() { --recording_depth; }

TrialKernels::TrialKernels() { ++trial_depth; }
TrialKernels::~TrialKernels() { --trial_depth; }

KernelRequests::KernelRequests() : outer_(innermost_requests) { innermost_requests = this; }
KernelRequests::~KernelRequests() { innermost_requests = outer_; }

std::vector<std::pair<KernelKey, std::shared_ptr<const LoadedKernel>>> KernelTable::ready() const {
  std::vector<std::pair<KernelKey, std::shared_ptr<const LoadedKernel>>> kernels;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.is_hidden) continue;
    if (entry.future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    try {
      kernels.emplace_back(entry.key, entry.future.get());
    } catch (const std::exception&) {  // its error went to who asked for it
    }
  }
  return kernels;
}

KernelTable::Entry* KernelTable::find(const KernelKey& key) {
  for (Entry& entry : entries_) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

void KernelTable::forget(const KernelKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; }),
                 entries_.end());
}

void KernelTable::fulfil(const Signature& op, const KernelKey& key,
                         std::promise<std::shared_ptr<const LoadedKernel>>& promise) {
  try {
    promise.set_value(load(op, key));
  } catch (...) {
    forget(key);
    promise.set_exception(std::current_exception());
  }
}

std::shared_ptr<const LoadedKernel> KernelTable::get(const Signature& op, const KernelKey& key,
                                                     c10::function_ref<KernelKey()> backward) {
  if (innermost_requests != nullptr) innermost_requests->keys_.push_back(key);
  for (;;) {
    if (auto loaded = get_once(op, key, backward)) return loaded;
  }
}

// Null: the thread that was compiling it was interrupted, which is no answer for this one.
std::shared_ptr<const LoadedKernel> KernelTable::get_once(const Signature& op, const KernelKey& key,
                                                          c10::function_ref<KernelKey()> backward) {
  std::promise<std::shared_ptr<const LoadedKernel>> promise;
  Future future;
  const bool is_trial = trial_depth > 0;
  bool ours = false, is_first = false;  // of those who are no trials
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Entry* entry = find(key)) {
      future = entry->future;
      is_first = entry->is_hidden && !is_trial;
      if (is_first) entry->is_hidden = false;
    } else {
      future = promise.get_future().share();
      entries_.push_back({key, future, is_trial});
      ours = true;
      is_first = !is_trial;
    }
  }
  const bool records = is_first && key.kind == OpKind::Forward && recording_depth > 0;
  if (records && backward && op.signature(OpKind::Backward) != nullptr) {
    try {
      prefetch(op.shared_from_this(), backward());
    } catch (const std::exception&) {  // memory or threads are short: the backward itself will tell
    }
  }
  if (ours) fulfil(op, key, promise);
  wait_interruptibly_for(future);
  try {
    return future.get();
  } catch (const Interrupted&) {
    if (ours) throw;
    return nullptr;
  }
}

void KernelTable::prefetch(std::shared_ptr<const Signature> op, const KernelKey& key) {
  std::promise<std::shared_ptr<const LoadedKernel>> promise;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (find(key) != nullptr) return;
    entries_.push_back({key, promise.get_future().share(), trial_depth > 0});
  }
  const auto work = [this, op = std::move(op), key, since = interruptions_seen(), is_trial = trial_depth > 0,
                     promise = std::make_shared<decltype(promise)>(std::move(promise))] {
    const WorksForAnother scope(since);
    const auto hidden = is_trial ? std::make_unique<TrialKernels>() : nullptr;
    fulfil(*op, key, *promise);
  };
  try {
    run_in_background(work);
  } catch (...) {
    forget(key);
    throw;
  }
}

std::shared_ptr<const LoadedKernel> KernelTable::any_backward(const std::vector<ElementType>& types, c10::Device device,
                                                              const KernelKey* own) {
  Future future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.key.kind != OpKind::Backward || entry.key.device != device || entry.key.types != types ||
          entry.key.unwanted != 0)
        continue;
      if (own != nullptr && entry.key == *own) return nullptr;
      future = entry.future;
      break;
    }
  }
  if (!future.valid()) return nullptr;
  wait_interruptibly_for(future);
  try {
    return future.get();
  } catch (const std::exception&) {  // its error, or interruption, is for who compiled it
    return nullptr;
  }
}

KernelTable::Compiled KernelTable::compile(const Signature& op, const KernelKey& key, const KnownUse& known) const {
  Backend& backend = backend_for(key.device.type());
  KernelSource source = specialize(op, key, known, options_);
  Compiled compiled;
  compiled.threads = source.threads;
  compiled.kernel = compiled.facts = backend.load(source, key.device);
  if (source.checks == Checks::All ||
      ((source.checks != Checks::None || source.polls) && may_say_too_much(op, compiled.kernel->marks()))) {
    source.checks = Checks::None;
    source.polls = false;
    compiled.facts = backend.load(source, key.device);
  }
  return compiled;
}

// Which inputs have no memory is decided once, by the variant that was asked for first: a graph may have been recorded
// without them, and another variant, in which the compiler did not find out, must do without them too.
KnownUse KernelTable::known_before(const KernelKey& key) {
  KnownUse known;
  if (key.kind != OpKind::Backward) return known;
  if (const auto first = any_backward(key.types, key.device, &key)) known.unused = first->unused;
  return known;
}

// A kernel for some of the gradients: what is known of the one for all holds for it too, elements that are the thread's
// own among it, so its own marks tell nothing more.
std::shared_ptr<const LoadedKernel> KernelTable::load_narrowed(const Signature& op, const KernelKey& key) {
  KernelKey all = key;
  all.unwanted = 0;
  const auto general = get(op, all);
  KnownUse known{general->scratch_outputs, general->unused, general->own};
  known.shared.flip();
  known.far = general->far;
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->scratch_outputs = general->scratch_outputs;
  loaded->unused = general->unused;
  loaded->own = own_leaves(op, key, known);
  loaded->gradients = general->gradients;
  for (size_t i = 0; i < loaded->gradients.size(); ++i) {
    if (is_unwanted(key, op.function.leaves[i])) loaded->gradients[i] = {};
  }
  const KernelSource source = specialize(op, key, known, options_);
  loaded->threads = source.threads;
  loaded->kernel = backend_for(key.device.type()).load(source, key.device);
  return loaded;
}

std::shared_ptr<const LoadedKernel> KernelTable::load(const Signature& op, const KernelKey& key) {
  const bool is_narrowed = key.kind == OpKind::Backward && key.unwanted != 0 && !op.is_elementwise();
  const KnownUse known = is_narrowed || op.is_elementwise() ? KnownUse() : known_before(key);
  const auto load_as = [&](const KernelKey& as) {
    return is_narrowed ? load_narrowed(op, as) : load_general(op, as, known);
  };
  auto loaded = load_as(key);
  if (loaded->threads.lanes == 1 || loaded->kernel->local_bytes() == 0) return loaded;
  // Words that registers do not hold are worse than none.
  KernelKey without = key;
  without.threads.lanes = 1;
  return load_as(without);
}

std::shared_ptr<const LoadedKernel> KernelTable::load_general(const Signature& op, const KernelKey& key,
                                                              KnownUse known) {
  if (op.is_elementwise()) {
    auto loaded = std::make_shared<LoadedKernel>();
    loaded->kernel = compile(op, key, {}).kernel;
    return loaded;
  }
  Compiled compiled = compile(op, key, known);
  check_written_views(op, key, compiled.facts->marks());
  while (learn(op, key, compiled.facts->marks(), known)) compiled = compile(op, key, known);
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->gradients = gradient_uses(op, key, compiled.facts->marks(), compiled.kernel->marks());
  loaded->scratch_outputs = known.scratch_outputs;
  loaded->own = own_leaves(op, key, known);
  loaded->far = known.far;
  loaded->threads = compiled.threads;
  loaded->unused = known.unused.empty() ? unused_inputs(op, key, compiled.facts->marks()) : known.unused;
  loaded->kernel = compiled.kernel;
  return loaded;
}

}  // namespace torch_slang
