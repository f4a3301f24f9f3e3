#include "tuned/tuning.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "common/interrupts.h"
#include "common/log.h"
#include "kernels/arguments.h"
#include "torch_slang/error.h"
#include "tuned/helper_threads.h"

namespace torch_slang {
namespace {

constexpr double kCompileShare = 0.7;    // of the budget
constexpr double kHopeless = 2;          // times the best: no need to know it more exactly
constexpr double kNear = 1.15;           // times the best: another time it may be the best
constexpr double kAlike = 1.01;          // times the best: which is the best is chance
constexpr double kTurnsShare = 0.05;     // of the budget, even if compilers took all of it
constexpr double kAgainShare = 0.05;     // of the budget, for timing all once more
constexpr unsigned kMaxThreads = 16;

std::string message_of(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  return own != nullptr ? own->what_without_backtrace() : error.what();
}

}  // namespace

size_t first_of_fastest(const std::vector<double>& seconds) {
  const double alike = kAlike * *std::min_element(seconds.begin(), seconds.end());
  const auto first = std::find_if(seconds.begin(), seconds.end(), [&](double one) { return one <= alike; });
  return static_cast<size_t>(first - seconds.begin());
}

Tuning::Tuning(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, c10::Device device,
               const std::vector<TunedValues>& all, BrokenKernels& broken, Make make, const CallContext& context)
    : front_(front),
      kind_(kind),
      stack_(stack),
      device_(device),
      broken_(broken),
      make_(std::move(make)),
      context_(context),
      budget_(choices::budget()),
      start_(std::chrono::steady_clock::now()) {
  for (const TunedValues& values : all) {
    candidates_.emplace_back();
    candidates_.back().values = values;
    candidates_.back().place = candidates_.size() - 1;
    candidates_.back().attempt.value = describe(values);
  }
  if (all.front().size() > 1) {
    std::shuffle(candidates_.begin() + 1, candidates_.end(), std::minstd_rand(1));  // the same each time
  }
}

double Tuning::spent() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool Tuning::is_open(const Candidate& candidate) const {
  return candidate.op != nullptr && candidate.attempt.problem.empty();
}

Trial::Run Tuning::call_of(const Candidate& candidate) const {
  return [this, op = candidate.op](c10::ArrayRef<c10::IValue> stack, const CallContext& context) {
    return op->run(kind_, stack, context);
  };
}

// A variant that fails is left out, whatever the reason.
template <class Work>
bool Tuning::try_to(Candidate& candidate, const Work& work) {
  try {
    work();
    return true;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    candidate.error = std::current_exception();
    candidate.attempt.problem = message_of(error);
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) out_of_memory_ = true;
    return false;
  }
}

void Tuning::on_threads(size_t begin, double limit, const std::function<void(Candidate&)>& work) {
  std::atomic<size_t> next = begin;
  const auto take = [&] {
    for (size_t i = next++; i < candidates_.size() && spent() < limit; i = next++) work(candidates_[i]);
  };
  const size_t count = std::min<size_t>(std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads),
                                        candidates_.size() - std::min(begin, candidates_.size()));
  HelperThreads threads;
  for (size_t i = 0; i < count; ++i) threads.start(take);
  threads.wait();
}

// Slang's part of the compile.
void Tuning::prepare(Candidate& candidate) {
  if (candidate.op != nullptr || candidate.error != nullptr) return;
  try_to(candidate, [&] {
    auto op = make_(candidate.values);
    const auto types = types_and_device(front_, kind_, stack_).first;
    const KernelSignature& signature = op->signature();
    candidate.text = &signature.text(kind_, types);
    candidate.op = std::move(op);
  });
}

void Tuning::find_first(Trial& trial) {
  HelperThreads others;
  others.start([&] { on_threads(1, kCompileShare * budget_, [&](Candidate& one) { prepare(one); }); });
  const auto works = [&](Candidate& candidate) {
    prepare(candidate);
    if (!is_open(candidate)) return false;
    keys_.clear();
    const Trial::Run call = [&, run = call_of(candidate)](c10::ArrayRef<c10::IValue> stack, CallContext context) {
      context.requested = &keys_;
      return run(stack, context);
    };
    return try_to(candidate, [&] { trial.agrees(call); });
  };
  bool found = works(candidates_[0]);
  others.wait();
  while (!found && ++first_ < candidates_.size()) found = works(candidates_[first_]);
  if (!found) std::rethrow_exception(candidates_[0].error);
}

const std::vector<int64_t>& Tuning::block_of(const Candidate& candidate) {
  return candidate.op->signature().function.kernel().block_size;
}

// Why it need not be tried beside the first that works, if so.
std::string Tuning::reason_to_leave_out(const Candidate& candidate) const {
  const Candidate& first = candidates_[first_];
  const bool same_block = block_of(candidate) == block_of(first);
  if (is_launch(kind_) && !same_block) return "it has another BlockSize, which the caller of a launch cannot follow";
  for (const Candidate& other : candidates_) {
    if (&other == &candidate) break;
    if (!is_open(other) || block_of(other) != block_of(candidate)) continue;
    if (other.text->body != candidate.text->body || other.text->file_scope != candidate.text->file_scope) continue;
    const auto threads = [&](const KernelSignature& op) {
      return op.shapes.launch_total(bind_arguments<int64_t>(op, kind_, read_arguments(op, kind_, stack_)));
    };
    if (is_launch(kind_) || threads(other.op->signature()) == threads(candidate.op->signature()))
      return "the same as " + other.attempt.value;
  }
  return "";
}

void Tuning::leave_out_equal_ones() {
  for (size_t i = first_ + 1; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (is_open(candidate)) {
      try_to(candidate, [&] { candidate.attempt.problem = reason_to_leave_out(candidate); });
    }
  }
}

// The device's part.
void Tuning::compile_the_rest() {
  on_threads(first_ + 1, kCompileShare * budget_, [&](Candidate& candidate) {
    if (!is_open(candidate)) return;
    try_to(candidate, [&] {
      for (const KernelKey& key : keys_) compile(candidate, key);
    });
  });
}

void Tuning::compile(Candidate& candidate, const KernelKey& key) {
  const std::string& variant = candidate.attempt.value;
  if (broken_.has(variant, key)) {
    throw_compile_error(front_.qualified(kind_), " with ", variant, " did not compile for an earlier call");
  }
  try {
    candidate.op->compile(key);
  } catch (const CompileError&) {
    broken_.add(variant, key);
    throw;
  }
}

// The first time, or another that counts if it is less.
void Tuning::measure(Trial& trial, Candidate& candidate) {
  const double best = timed_ > 0 ? candidates_[chosen_].attempt.seconds : std::numeric_limits<double>::infinity();
  double& seconds = candidate.attempt.seconds;
  const double now = trial.seconds_of_several(call_of(candidate), kHopeless * best);
  seconds = seconds > 0 ? std::min(seconds, now) : now;
  if (seconds > 0 && seconds < best) chosen_ = static_cast<size_t>(&candidate - candidates_.data());
}

void Tuning::time(Trial& trial, Candidate& candidate) {
  if (!try_to(candidate, [&] {
        if (&candidate != &candidates_[first_] && !trial.agrees(call_of(candidate))) {
          candidate.attempt.problem = "its results are not those of " + candidates_[first_].attempt.value;
          log_warning(front_.qualified(kind_), " with ", candidate.attempt.value, " gives other results than with ",
                      candidates_[first_].attempt.value, ", so it is not used: tuned variables may not change results");
          return;
        }
        trial.run(call_of(candidate));
        measure(trial, candidate);
      })) {
    return;
  }
  if (candidate.attempt.seconds > 0) ++timed_;
}

// A device that had nothing to do gets faster while the first are timed: so these have another chance.
void Tuning::time_the_first_again(Trial& trial) {
  const double end = std::min(budget_, spent() + kAgainShare * budget_);
  for (Candidate& candidate : candidates_) {
    if (!is_open(candidate) || candidate.attempt.seconds <= 0) continue;
    if (spent() > end) return;
    try {
      measure(trial, candidate);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {  // it has run before: its first time stands
      log_warning(front_.qualified(kind_), " with ", candidate.attempt.value,
                  ": timing it again failed: ", message_of(error));
    }
  }
}

void Tuning::time_the_best_in_turns(Trial& trial) {
  const double best = candidates_[chosen_].attempt.seconds;
  std::vector<Candidate*> near;
  for (Candidate& candidate : candidates_) {
    const double seconds = candidate.attempt.seconds;
    if (is_open(candidate) && seconds > 0 && seconds <= kNear * best) near.push_back(&candidate);
  }
  if (near.size() < 2) return;
  std::sort(near.begin(), near.end(), [](const Candidate* a, const Candidate* b) { return a->place < b->place; });
  std::vector<Trial::Run> variants;
  for (const Candidate* candidate : near) variants.push_back(call_of(*candidate));
  const double end = std::max(budget_, spent() + kTurnsShare * budget_);
  std::vector<double> seconds;
  try {
    seconds = trial.seconds_in_turns(variants, [&] { return spent() > end; });
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {  // all of them have run before: the choice stands
    log_warning(front_.qualified(kind_), ": timing the fastest variants again failed: ", message_of(error));
  }
  if (seconds.empty()) return;
  for (size_t i = 0; i < near.size(); ++i) near[i]->attempt.seconds = seconds[i];
  chosen_ = static_cast<size_t>(near[first_of_fastest(seconds)] - candidates_.data());
}

choices::Choice Tuning::choose() {
  Trial trial(front_, kind_, stack_, device_, context_);
  find_first(trial);
  chosen_ = first_;
  leave_out_equal_ones();
  compile_the_rest();
  const auto open =
      std::count_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return is_open(c); });
  for (Candidate& candidate : candidates_) {
    const bool is_tried = is_open(candidate) && spent() < budget_;
    if (is_tried && open > 1) time(trial, candidate);
    if (is_tried || candidate.error != nullptr || !candidate.attempt.problem.empty()) continue;
    over_budget_ = true;
    candidate.attempt.problem = c10::str("the budget of ", budget_, " s was spent");
  }
  if (timed_ > 1) {
    time_the_first_again(trial);
    time_the_best_in_turns(trial);
  }
  if (over_budget_) {
    log_warning(front_.qualified(kind_), ": not all variants were tried, since tuning may take ", budget_,
                " s (torch_slang.tuning.budget)");
  }
  choices::Choice choice{front_.qualified(kind_), "", candidates_[chosen_].attempt.value, {}, spent()};
  choice.tried.resize(candidates_.size());
  for (const Candidate& candidate : candidates_) choice.tried[candidate.place] = candidate.attempt;
  return choice;
}

}  // namespace torch_slang
