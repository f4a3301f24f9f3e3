// Values that are made once each, at first need, whichever threads ask. No lock is held while one is made, and who waits for it
// can be interrupted. A failure is for the thread that made it and for those that waited: it is not remembered.
#pragma once

#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "common/interrupts.h"

namespace torch_slang {

template <class Key, class Value>
class OnceEach {
 public:
  // `make()` gives the value, on the thread that asks first.
  template <class Make>
  Value get(const Key& key, const Make& make) {
    for (;;) {
      std::promise<Value> promise;
      const auto [future, is_ours] = find(key, promise);
      if (is_ours) fulfil(key, promise, make);
      wait_interruptibly_for(future);
      try {
        return future.get();
      } catch (const Interrupted&) {  // of the thread that was making it: no answer for another
        if (is_ours) throw;
      }
    }
  }

 private:
  std::pair<std::shared_future<Value>, bool> find(const Key& key, std::promise<Value>& promise) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [entry, is_new] = values_.try_emplace(key);
    if (is_new) entry->second = promise.get_future().share();
    return {entry->second, is_new};
  }

  template <class Make>
  void fulfil(const Key& key, std::promise<Value>& promise, const Make& make) {
    try {
      promise.set_value(make());
    } catch (...) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        values_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
  }

  std::mutex mutex_;
  std::map<Key, std::shared_future<Value>> values_;
};

}  // namespace torch_slang
