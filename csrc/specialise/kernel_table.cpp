#include "specialise/kernel_table.h"

#include <future>

#include "common/background.h"
#include "common/interrupts.h"

namespace torch_slang {

std::vector<std::pair<KernelKey, KernelTable::Loaded>> KernelTable::ready() const {
  return kernels_.ready([](const Note& note) { return !note.is_hidden; });
}

KernelTable::Loaded KernelTable::get(const KernelKey& key, const CallContext& context,
                                     c10::function_ref<void()> prefetch_others) {
  if (context.requested != nullptr) context.requested->push_back(key);
  for (;;) {
    bool is_first = false;  // of the calls that are no trials
    const auto asked = kernels_.ask(key, [&](Note& note, bool) {
      is_first = note.is_hidden && !context.hides_kernels;
      if (is_first) note.is_hidden = false;
    });
    if (is_first) {
      try {
        prefetch_others();
      } catch (const std::exception&) {  // memory or threads are short: calls that need those kernels will throw
      }
    }
    if (auto loaded = kernels_.answer(asked, [&] { return load_(key, context); })) return *loaded;
  }
}

void KernelTable::prefetch(const KernelKey& key, const CallContext& context) {
  CallContext ahead;
  ahead.hides_kernels = context.hides_kernels;
  const auto asked = kernels_.ask(key, [&](Note& note, bool is_new) {
    if (is_new) note.is_hidden = ahead.hides_kernels;
  });
  if (asked.promise == nullptr) return;
  try {
    run_in_background([this, owner = owner_(), key, ahead, since = interruptions_seen(), promise = asked.promise] {
      const WorksForAnother scope(since);
      kernels_.fulfil(*promise, [&] { return load_(key, ahead); });
    });
  } catch (...) {
    kernels_.forget(*asked.promise);
    throw;
  }
}

KernelTable::Loaded KernelTable::any_backward(const std::vector<ElementType>& types, c10::Device device,
                                              const KernelKey* own) {
  bool is_own = false;
  const auto future = kernels_.find([&](const KernelKey& key) {
    const bool is_wanted =
        key.kind == OpKind::Backward && key.device == device && key.types == types && key.unwanted == 0;
    is_own = is_wanted && own != nullptr && key == *own;
    return is_wanted;
  });
  if (is_own || !future.valid()) return nullptr;
  wait_interruptibly_for(future);
  try {
    return future.get();
  } catch (const std::exception&) {  // the thread that compiled it has its error, or its interruption
    return nullptr;
  }
}

}  // namespace torch_slang
