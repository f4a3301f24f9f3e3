#include "kernel/kernel_table.h"

#include <algorithm>
#include <chrono>

#include "common/background.h"
#include "common/interrupts.h"

namespace torch_slang {

std::vector<std::pair<KernelKey, KernelTable::Loaded>> KernelTable::ready() const {
  std::vector<std::pair<KernelKey, Loaded>> kernels;
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

void KernelTable::fulfil(const KernelKey& key, const CallContext& context, std::promise<Loaded>& promise) {
  try {
    promise.set_value(load_(key, context));
  } catch (...) {
    forget(key);
    promise.set_exception(std::current_exception());
  }
}

KernelTable::Loaded KernelTable::get(const KernelKey& key, const CallContext& context,
                                     c10::function_ref<void()> prefetch_others) {
  if (context.requested != nullptr) context.requested->push_back(key);
  for (;;) {
    if (auto loaded = get_once(key, context, prefetch_others)) return loaded;
  }
}

// Null: the thread that was compiling it was interrupted, which is no answer for this one.
KernelTable::Loaded KernelTable::get_once(const KernelKey& key, const CallContext& context,
                                          c10::function_ref<void()> prefetch_others) {
  std::promise<Loaded> promise;
  std::shared_future<Loaded> future;
  bool ours = false, is_first = false;  // of those who are no trials
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Entry* entry = find(key)) {
      future = entry->future;
      is_first = entry->is_hidden && !context.hides_kernels;
      if (is_first) entry->is_hidden = false;
    } else {
      future = promise.get_future().share();
      entries_.push_back({key, future, context.hides_kernels});
      ours = true;
      is_first = !context.hides_kernels;
    }
  }
  if (is_first) {
    try {
      prefetch_others();
    } catch (const std::exception&) {  // memory or threads are short: who needs those kernels will be told
    }
  }
  if (ours) fulfil(key, context, promise);
  wait_interruptibly_for(future);
  try {
    return future.get();
  } catch (const Interrupted&) {
    if (ours) throw;
    return nullptr;
  }
}

void KernelTable::prefetch(const KernelKey& key, const CallContext& context) {
  std::promise<Loaded> promise;
  CallContext ahead;
  ahead.hides_kernels = context.hides_kernels;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (find(key) != nullptr) return;
    entries_.push_back({key, promise.get_future().share(), ahead.hides_kernels});
  }
  try {
    run_in_background([this, owner = owner_(), key, ahead, since = interruptions_seen(),
                       promise = std::make_shared<decltype(promise)>(std::move(promise))] {
      const WorksForAnother scope(since);
      fulfil(key, ahead, *promise);
    });
  } catch (...) {
    forget(key);
    throw;
  }
}

KernelTable::Loaded KernelTable::any_backward(const std::vector<ElementType>& types, c10::Device device,
                                              const KernelKey* own) {
  std::shared_future<Loaded> future;
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

}  // namespace torch_slang
