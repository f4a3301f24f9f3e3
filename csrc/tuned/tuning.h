// One search for the fastest variant, for one call: Note [tuning] in tuned/tuner.h.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tuned/broken_kernels.h"
#include "tuned/tuned_module.h"
#include "tuning/choices.h"
#include "tuning/trial.h"

namespace torch_slang {

// The number of the first that takes no more than 1 % longer than the fastest: where chance would choose, the order does.
size_t first_of_fastest(const std::vector<double>& seconds);

class Tuning {
 public:
  using Make = std::function<std::shared_ptr<const KernelOperator>(const TunedValues&)>;

  // `all`: not empty. `make` is called by several threads, and throws for values that no variant can be made of. The
  // references must outlive this object.
  Tuning(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, c10::Device device,
         const std::vector<TunedValues>& all, BrokenKernels& broken, Make make, const CallContext& context);

  // Throws what the first variant threw if none works. `about` is left empty.
  choices::Choice choose();
  const TunedValues& chosen() const { return candidates_[chosen_].values; }
  // False if the budget ended before there was anything to compare, or memory was short: another time may know better.
  bool is_worth_keeping() const { return !out_of_memory_ && (!over_budget_ || timed_ > 1); }

 private:
  struct Candidate {
    TunedValues values;
    size_t place = 0;  // among `all`
    std::shared_ptr<const KernelOperator> op;  // null: it could not be made
    const DeviceText* text = nullptr;
    choices::Attempt attempt;
    std::exception_ptr error;
  };
  template <class Work>
  bool try_to(Candidate& candidate, const Work& work);
  void prepare(Candidate& candidate);
  void find_first(Trial& trial);
  void leave_out_equal_ones();
  static const std::vector<int64_t>& block_of(const Candidate& candidate);
  std::string reason_to_leave_out(const Candidate& candidate) const;
  void compile_the_rest();
  void compile(Candidate& candidate, const KernelKey& key);
  void measure(Trial& trial, Candidate& candidate);
  void time(Trial& trial, Candidate& candidate);
  void time_the_first_again(Trial& trial);
  void time_the_best_in_turns(Trial& trial);
  bool is_open(const Candidate& candidate) const;
  Trial::Run call_of(const Candidate& candidate) const;
  double spent() const;
  // Calls `work` for candidates from `begin` on, by several threads, while less than `limit` seconds are spent.
  void on_threads(size_t begin, double limit, const std::function<void(Candidate&)>& work);

  const KernelSignature& front_;
  const OpKind kind_;
  const c10::ArrayRef<c10::IValue> stack_;
  const c10::Device device_;
  BrokenKernels& broken_;
  const Make make_;
  const CallContext& context_;
  const double budget_;
  const std::chrono::steady_clock::time_point start_;
  // In the order of one variable's values. The combinations of several are shuffled, all but the first: a budget that ends
  // takes a sample.
  std::vector<Candidate> candidates_;
  std::vector<KernelKey> keys_;  // of the kernels that a call needs
  size_t first_ = 0;             // the first that works
  size_t chosen_ = 0;
  int timed_ = 0;
  bool over_budget_ = false;
  std::atomic<bool> out_of_memory_ = false;
};

}  // namespace torch_slang
