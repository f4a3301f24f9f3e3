#include "op/kernel_table.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "op/operator.h"
#include "op/specialize.h"

namespace torch_slang {

namespace {

thread_local int recording_depth = 0;
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

  void start(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.emplace_back(std::move(work));
  }

 private:
  void join() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      threads.swap(threads_);
    }
    for (auto& thread : threads) thread.join();
  }

  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

void run_in_background(std::function<void()> work) { BackgroundThreads::instance().start(std::move(work)); }

}  // namespace

RecordingScope::RecordingScope() { ++recording_depth; }
RecordingScope::~RecordingScope() { --recording_depth; }

KernelRequests::KernelRequests() : outer_(innermost_requests) { innermost_requests = this; }
KernelRequests::~KernelRequests() { innermost_requests = outer_; }

bool KernelKey::operator==(const KernelKey& other) const {
  return kind == other.kind && dense == other.dense && independent == other.independent && device == other.device &&
         types == other.types && sizes == other.sizes && variant == other.variant;
}

const KernelTable::Entry* KernelTable::find(const KernelKey& key) const {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

void KernelTable::forget(const KernelKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; }),
                 entries_.end());
}

void KernelTable::fulfil(const Operator& op, const KernelKey& key,
                         std::promise<std::shared_ptr<const LoadedKernel>>& promise) {
  try {
    promise.set_value(load(op, key));
  } catch (...) {
    forget(key);
    promise.set_exception(std::current_exception());
  }
}

std::shared_ptr<const LoadedKernel> KernelTable::get(const Operator& op, const KernelKey& key) {
  if (innermost_requests != nullptr) innermost_requests->keys_.push_back(key);
  std::promise<std::shared_ptr<const LoadedKernel>> promise;
  Future future;
  bool ours = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const Entry* entry = find(key)) {
      future = entry->future;
    } else {
      future = promise.get_future().share();
      entries_.push_back({key, future});
      ours = true;
    }
  }
  if (ours) {
    if (key.kind == OpKind::Forward && recording_depth > 0 && op.signature(OpKind::Backward) != nullptr &&
        !op.is_mapped()) {
      KernelKey backward = key;
      backward.kind = OpKind::Backward;
      prefetch(op.shared_from_this(), backward);
    }
    fulfil(op, key, promise);
  }
  return future.get();
}

void KernelTable::prefetch(std::shared_ptr<const Operator> op, const KernelKey& key) {
  std::promise<std::shared_ptr<const LoadedKernel>> promise;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (find(key) != nullptr) return;
    entries_.push_back({key, promise.get_future().share()});
  }
  run_in_background([this, op = std::move(op), key, promise = std::make_shared<decltype(promise)>(std::move(promise))] {
    fulfil(*op, key, *promise);
  });
}

std::shared_ptr<const LoadedKernel> KernelTable::any_backward(const std::vector<ElementType>& types, c10::Device device,
                                                              const KernelKey* own) {
  Future future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.key.kind != OpKind::Backward || entry.key.device != device || entry.key.types != types) continue;
      if (own != nullptr && entry.key == *own) return nullptr;
      future = entry.future;
      break;
    }
  }
  if (!future.valid()) return nullptr;
  try {
    return future.get();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

KernelTable::Compiled KernelTable::compile(const Operator& op, const KernelKey& key, const KnownUse& known) const {
  Backend& backend = backend_for(key.device.type());
  KernelSource source = specialize(op, key, known, options_);
  Compiled compiled;
  compiled.kernel = compiled.facts = backend.load(source, key.device);
  if (source.checks == Checks::All || (source.checks != Checks::None && may_say_too_much(op, *compiled.kernel))) {
    source.checks = Checks::None;
    compiled.facts = backend.load(source, key.device);
  }
  return compiled;
}

std::shared_ptr<const LoadedKernel> KernelTable::load(const Operator& op, const KernelKey& key) {
  KnownUse known;
  if (op.is_mapped()) {
    auto loaded = std::make_shared<LoadedKernel>();
    loaded->kernel = compile(op, key, known).kernel;
    return loaded;
  }
  // Which inputs have no memory is decided once, by the variant that was asked for first: a graph may have been recorded
  // without them, and another variant, in which the compiler did not find out, must do without them too.
  if (key.kind == OpKind::Backward) {
    if (const auto first = any_backward(key.types, key.device, &key)) known.unused = first->unused;
  }
  Compiled compiled = compile(op, key, known);
  check_written_views(op, key, *compiled.facts);
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->gradients = gradient_uses(op, key, *compiled.facts);
  loaded->scratch_outputs = outputs_read_back(op, key, *compiled.facts);
  if (!loaded->scratch_outputs.empty()) {
    check_stored_values(op, key, loaded->scratch_outputs);
    known.scratch_outputs = loaded->scratch_outputs;
    compiled = compile(op, key, known);
  }
  loaded->unused = known.unused.empty() ? unused_inputs(op, key, *compiled.facts) : known.unused;
  loaded->kernel = compiled.kernel;
  return loaded;
}

}  // namespace torch_slang
