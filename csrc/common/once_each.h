// Values that are made once each, at first need, whichever threads ask. No lock is held while one is made, and a thread that
// waits for it can be interrupted. A failure goes to the thread that made it and to those that waited: it is not remembered.
#pragma once

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/interrupts.h"

namespace torch_slang {

struct NoNote {};

// Few keys: they are searched one after the other. `Note`: the owner's own data for each key.
template <class Key, class Value, class Note = NoNote>
class OnceEach {
 public:
  // `make()` returns the value, on the thread that asks first.
  template <class Make>
  Value get(const Key& key, const Make& make) {
    for (;;) {
      const Asked asked = ask(key, [](Note&, bool) {});
      if (std::optional<Value> value = answer(key, asked, make)) return *std::move(value);
    }
  }

  // The two halves of `get`, for owners that do something between them. Who gets a promise has to fulfil it, or to forget
  // the key.
  struct Asked {
    std::shared_future<Value> future;
    std::shared_ptr<std::promise<Value>> promise;  // null: another thread makes the value, or has made it
  };
  // `visit(note, is_new)` is called under the lock.
  template <class Visit>
  Asked ask(const Key& key, const Visit& visit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Entry& entry : entries_) {
      if (!(entry.key == key)) continue;
      visit(entry.note, false);
      return {entry.future, nullptr};
    }
    auto promise = std::make_shared<std::promise<Value>>();
    entries_.push_back({key, promise->get_future().share(), Note{}});
    visit(entries_.back().note, true);
    return {entries_.back().future, std::move(promise)};
  }
  // Nothing if the thread that was making the value was interrupted, which is no answer for another: ask again.
  template <class Make>
  std::optional<Value> answer(const Key& key, const Asked& asked, const Make& make) {
    if (asked.promise != nullptr) fulfil(key, *asked.promise, make);
    wait_interruptibly_for(asked.future);
    try {
      return asked.future.get();
    } catch (const Interrupted&) {
      if (asked.promise != nullptr) throw;
      return std::nullopt;
    }
  }
  template <class Make>
  void fulfil(const Key& key, std::promise<Value>& promise, const Make& make) {
    try {
      promise.set_value(make());
    } catch (...) {
      forget(key);
      promise.set_exception(std::current_exception());
    }
  }
  void forget(const Key& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  }

  // The future of the first key that fulfils `wanted(key)`, in the order in which they were asked for; else an invalid one.
  template <class Wanted>
  std::shared_future<Value> find(const Wanted& wanted) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (wanted(entry.key)) return entry.future;
    }
    return {};
  }

  // The values that are made, of keys for which `wanted(note)`, in the order in which they were asked for.
  template <class Wanted>
  std::vector<std::pair<Key, Value>> ready(const Wanted& wanted) const {
    std::vector<std::pair<Key, Value>> values;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (!wanted(entry.note)) continue;
      if (entry.future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
      try {
        values.emplace_back(entry.key, entry.future.get());
      } catch (const std::exception&) {  // the thread that asked for it has the error
      }
    }
    return values;
  }

 private:
  struct Entry {
    Key key;
    std::shared_future<Value> future;
    Note note;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace torch_slang
