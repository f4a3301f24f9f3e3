// Known choices, by class of call, until choices change (choices::generation). Any thread may ask.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "tuning/choices.h"

namespace torch_slang {

// Numbers that are equal for calls that are assumed to want the same choice: kernels/call_class.h.
using CallClass = c10::SmallVector<int64_t, 32>;

template <class Value>
class KnownChoices {
 public:
  std::optional<Value> find(const CallClass& call) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    if (generation_ != choices::generation()) return std::nullopt;
    const auto found = values_.find(call);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  // `generation`: when the value was looked for.
  Value keep(const CallClass& call, uint64_t generation, Value value) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    if (generation_ != generation) values_.clear();
    generation_ = generation;
    values_[call] = value;
    return value;
  }

  bool has(const Value& value) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    for (const auto& [call, known] : values_) {
      if (known == value) return true;
    }
    return false;
  }

 private:
  mutable std::shared_mutex mutex_;
  uint64_t generation_ = 0;
  std::map<CallClass, Value> values_;
};

}  // namespace torch_slang
