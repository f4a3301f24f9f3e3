// Values that are made once each, at first need, whichever threads ask. No lock is held while one is made, and a thread that
// waits for it can be interrupted. A failure goes to the thread that made it and to those that waited: it is not remembered.
// A forked process does not have the threads of its parent. It does not wait for a value that one of them was making, but makes its own.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/interrupts.h"

namespace torch_slang {

// Few keys: they are searched one after the other. `Note`: the owner's own data for each key.
template <class Key, class Value = std::monostate, class Note = std::monostate>
class OnceEach {
 public:
  // `make()` returns the value, on the thread that asks first.
  template <class Make>
  Value get(const Key& key, const Make& make) {
    for (;;) {
      const Asked asked = ask(key, [](Note&, bool) {});
      if (std::optional<Value> value = answer(asked, make)) return *std::move(value);
    }
  }

  // For owners that store the values themselves; `find()` looks there. One thread at a time calls `find()`, and `make()` if nothing was
  // found. The threads whose value it may make (`serves(its key)`) wait until it is done or has failed, and then do the same.
  template <class Serves, class Find, class Make>
  auto find_or_make(const Key& key, const Serves& serves, const Find& find, const Make& make) {
    Asked asked;
    while ((asked = ask(key, serves, [](Note&, bool) {})).promise == nullptr) wait_interruptibly_for(asked.future);
    const Ending ending{*this, *asked.promise};
    auto found = find();
    return found ? found : make();
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
    return ask(key, [&](const Key& known) { return known == key; }, visit);
  }
  // Nothing if the thread that was making the value was interrupted, which is no answer for another: ask again.
  template <class Make>
  std::optional<Value> answer(const Asked& asked, const Make& make) {
    if (asked.promise != nullptr) fulfil(*asked.promise, make);
    wait_interruptibly_for(asked.future);
    try {
      return asked.future.get();
    } catch (const Interrupted&) {
      if (asked.promise != nullptr) throw;
      return std::nullopt;
    }
  }
  template <class Make>
  void fulfil(std::promise<Value>& promise, const Make& make) {
    try {
      promise.set_value(make());
    } catch (...) {
      forget(promise);
      promise.set_exception(std::current_exception());
    }
  }
  void forget(const std::promise<Value>& promise) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.promise.get() == &promise; });
  }

  // The future of the first key that fulfils `wanted(key)`, in the order in which they were asked for; else an invalid one.
  template <class Wanted>
  std::shared_future<Value> find(const Wanted& wanted) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.will_be_ready() && wanted(entry.key)) return entry.future;
    }
    return {};
  }

  // The values that are made, of keys for which `wanted(note)`, in the order in which they were asked for.
  template <class Wanted>
  std::vector<std::pair<Key, Value>> ready(const Wanted& wanted) const {
    std::vector<std::pair<Key, Value>> values;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Entry& entry : entries_) {
      if (!wanted(entry.note) || !entry.is_ready()) continue;
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
    std::shared_ptr<std::promise<Value>> promise;
    std::shared_future<Value> future;
    Note note;
    pid_t process = ::getpid();

    bool is_ready() const { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    bool will_be_ready() const { return is_ready() || process == ::getpid(); }
  };

  // Of a value that its owner keeps.
  struct Ending {
    OnceEach& values;
    std::promise<Value>& promise;
    ~Ending() {
      values.forget(promise);
      promise.set_value({});
    }
  };

  template <class Serves, class Visit>
  Asked ask(const Key& key, const Serves& serves, const Visit& visit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return serves(entry.key); });
    if (known != entries_.end() && known->will_be_ready()) {
      visit(known->note, false);
      return {known->future, nullptr};
    }
    if (known != entries_.end()) entries_.erase(known);
    auto promise = std::make_shared<std::promise<Value>>();
    entries_.push_back({key, promise, promise->get_future().share(), Note{}});
    visit(entries_.back().note, true);
    return {entries_.back().future, std::move(promise)};
  }

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace torch_slang
