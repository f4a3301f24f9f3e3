// Which variables may hold a copy of a gradient's sum, as far as the statements so far tell. The pass of added_gradients.h asks,
// so that it adds no sum to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace torch_slang {

// A set of sums, by number. In straight code each sum goes into nearly all that follows: a bit for each is small and quick.
class SumSet {
 public:
  void add(size_t sum);
  void add(const SumSet& others);
  void remove(size_t sum);
  bool has(size_t sum) const;
  bool empty() const;
  bool operator==(const SumSet& other) const { return words_ == other.words_; }

 private:
  void trim();

  std::vector<uint64_t> words_;  // the last is not zero
};

// The sums whose copies a variable may hold. Kept by variable, so that a statement asks for the few that it names.
class CopiesOfSums {
 public:
  const SumSet& in(const std::string& variable) const;
  // The statement computes a value from `sums` and assigns it to the variable, whose former copies stay or do not.
  void put(const SumSet& sums, const std::string& variable, bool stays);
  void forget(size_t sum);  // it holds something else now
  void join(const CopiesOfSums& other);
  bool operator==(const CopiesOfSums& other) const { return by_variable_ == other.by_variable_; }

 private:
  std::map<std::string, SumSet, std::less<>> by_variable_;  // none is empty
  SumSet gone_;  // those that any variable has been given: few are when they begin anew
};

}  // namespace torch_slang
