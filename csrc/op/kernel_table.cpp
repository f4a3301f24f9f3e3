#include "op/kernel_table.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "op/operator.h"
#include "op/specialize.h"

namespace torch_slang {

bool KernelKey::operator==(const KernelKey& other) const {
  return kind == other.kind && dense == other.dense && independent == other.independent && device == other.device &&
         types == other.types;
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

std::shared_ptr<const LoadedKernel> KernelTable::get(const Operator& op, const KernelKey& key) {
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
    try {
      promise.set_value(load(op, key));
    } catch (...) {
      forget(key);
      promise.set_exception(std::current_exception());
    }
  }
  return future.get();
}

void KernelTable::prefetch(const std::shared_ptr<const Operator>& op, const KernelKey& key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (find(key) != nullptr) return;
  }
  std::thread([op, key] {
    try {
      op->kernels.get(*op, key);
    } catch (...) {  // NOLINT: whoever needs the kernel compiles again and reports
    }
  }).detach();
}

std::shared_ptr<const LoadedKernel> KernelTable::load(const Operator& op, const KernelKey& key) const {
  Backend& backend = backend_for(key.device.type());
  auto loaded = std::make_shared<LoadedKernel>();
  KernelSource source = specialize(op, key, {}, options_);
  loaded->kernel = backend.load(source, key.device);
  check_written_views(op, key, *loaded->kernel);
  loaded->scratch_outputs = outputs_read_back(op, key, *loaded->kernel);
  if (!loaded->scratch_outputs.empty()) {
    source = specialize(op, key, loaded->scratch_outputs, options_);
    loaded->kernel = backend.load(source, key.device);
  }
  return loaded;
}

}  // namespace torch_slang
