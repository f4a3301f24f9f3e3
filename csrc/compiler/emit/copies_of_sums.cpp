#include "compiler/emit/copies_of_sums.h"

namespace torch_slang {
namespace {

constexpr size_t kBits = 64;

uint64_t bit_of(size_t sum) { return uint64_t{1} << (sum % kBits); }

}  // namespace

void SumSet::add(size_t sum) {
  if (words_.size() <= sum / kBits) words_.resize(sum / kBits + 1);
  words_[sum / kBits] |= bit_of(sum);
}

void SumSet::add(const SumSet& others) {
  if (words_.size() < others.words_.size()) words_.resize(others.words_.size());
  for (size_t i = 0; i < others.words_.size(); ++i) words_[i] |= others.words_[i];
}

void SumSet::remove(size_t sum) {
  if (!has(sum)) return;
  words_[sum / kBits] &= ~bit_of(sum);
  trim();
}

bool SumSet::has(size_t sum) const { return sum / kBits < words_.size() && (words_[sum / kBits] & bit_of(sum)) != 0; }

bool SumSet::empty() const { return words_.empty(); }

void SumSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

const SumSet& CopiesOfSums::in(const std::string& variable) const {
  static const SumSet kNone;
  const auto found = by_variable_.find(variable);
  return found == by_variable_.end() ? kNone : found->second;
}

void CopiesOfSums::put(const SumSet& sums, const std::string& variable, bool stays) {
  if (!sums.empty()) {
    SumSet& held = by_variable_[variable];
    if (stays)
      held.add(sums);
    else
      held = sums;
    gone_.add(sums);
  } else if (!stays) {
    by_variable_.erase(variable);
  }
}

void CopiesOfSums::forget(size_t sum) {
  if (!gone_.has(sum)) return;
  gone_.remove(sum);
  for (auto& [variable, sums] : by_variable_) sums.remove(sum);
  std::erase_if(by_variable_, [](const auto& held) { return held.second.empty(); });
}

void CopiesOfSums::join(const CopiesOfSums& other) {
  for (const auto& [variable, sums] : other.by_variable_) by_variable_[variable].add(sums);
  gone_.add(other.gone_);
}

}  // namespace torch_slang
