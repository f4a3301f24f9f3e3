#include "op/thread_choices.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <limits>

#include "backend/backend.h"
#include "common/hash.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "op/choices.h"
#include "op/trial.h"

namespace torch_slang {
namespace {

constexpr double kHopeless = 1.2;  // times what is likely: no need to know it more exactly

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One search for the fastest, for one call.
class Measurement {
 public:
  Measurement(const Signature& op, KernelTable& kernels, const KernelKey& key, const ThreadFacts& facts,
              c10::ArrayRef<c10::IValue> stack, ThreadChoices::Run run)
      : op_(op), kernels_(kernels), key_(key), facts_(facts), run_(run), trial_(op, key.kind, stack, key.device) {}

  choices::Choice choose() {
    const VirtualThreads fastest = fastest_threads(facts_, key_.threads, [&](const auto& all) { return times(all); });
    choice_.op = op_.qualified(key_.kind);
    choice_.value = describe(fastest);
    choice_.spent = seconds_since(start_);
    return std::move(choice_);
  }

 private:
  std::vector<double> times(const std::vector<VirtualThreads>& all) {
    for (const VirtualThreads& threads : all) kernels_.prefetch(op_.shared_from_this(), with(threads));
    std::vector<double> result;
    for (const VirtualThreads& threads : all) result.push_back(time(threads));
    return result;
  }

  KernelKey with(const VirtualThreads& threads) const {
    KernelKey key = key_;
    key.threads = threads;
    return key;
  }

  double time(const VirtualThreads& threads) {
    choices::Attempt attempt{describe(threads), 0, ""};
    try {
      measure(threads, attempt);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      if (compiled_.empty()) throw;  // the call itself would fail
      attempt.problem = error.what_without_backtrace();
    }
    choice_.tried.push_back(attempt);
    return attempt.seconds;
  }

  void measure(const VirtualThreads& threads, choices::Attempt& attempt) {
    if (!compiled_.empty() && seconds_since(start_) > choices::budget()) {
      attempt.problem = c10::str("the budget of ", choices::budget(), " s was spent");
      return;
    }
    const VirtualThreads compiled = kernels_.get(op_, with(threads))->threads;
    for (const auto& [known, value] : compiled_) {
      if (known != compiled) continue;
      attempt.problem = "the same as " + value;
      return;
    }
    const GivenThreads given(&threads);
    trial_.run(run_);
    attempt.seconds = trial_.seconds_of_several(run_, hopeless_);
    if (compiled_.empty()) hopeless_ = kHopeless * attempt.seconds;
    compiled_.emplace_back(compiled, attempt.value);
  }

  const Signature& op_;
  KernelTable& kernels_;
  const KernelKey& key_;
  const ThreadFacts& facts_;
  const Trial::Run run_;
  const TrialKernels hidden_;
  Trial trial_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::pair<VirtualThreads, std::string>> compiled_;  // what was timed, as it was compiled
  double hopeless_ = std::numeric_limits<double>::infinity();
  choices::Choice choice_;
};

std::string key_of(const Signature& op, const KernelKey& key, const DeviceText& text, const std::string& hardware,
                   const CallClass& call) {
  Digest digest;
  digest.add("choice of virtual threads").add(op.qualified(key.kind)).add(text.body).add(text.file_scope);
  digest.add(hardware);
  for (const int64_t number : c10::ArrayRef<int64_t>(call).slice(1)) digest.add(number);
  return digest.hex();
}

}  // namespace

ChosenThreads ThreadChoices::get(const Signature& op, KernelTable& kernels, const KernelKey& key,
                                 const ThreadFacts& facts, c10::ArrayRef<c10::IValue> stack, Run run) {
  if (const auto given = GivenThreads::for_kernel(key.threads)) return {*given};
  if (!is_worth_measuring(facts)) return {key.threads};
  const VirtualThreads& likely = key.threads;
  CallClass call = class_of(op, key.kind, stack);
  call.append({static_cast<int64_t>(key.strided), key.independent, likely.lanes, likely.groups(), likely.repeats,
               likely.axis, facts.lanes});
  if (const auto chosen = known_.find(call)) return *chosen;
  return choose(op, kernels, key, facts, stack, run, call);
}

ChosenThreads ThreadChoices::choose(const Signature& op, KernelTable& kernels, const KernelKey& key,
                                    const ThreadFacts& facts, c10::ArrayRef<c10::IValue> stack, Run run,
                                    const CallClass& call) {
  const uint64_t generation = choices::generation();
  const choices::Mode mode = choices::mode();
  const DeviceText& text = op.texts->text(op.function.name, direction_of(key.kind), key.types);
  if (mode == choices::Mode::Off || text.waves || text.barriers) return known_.keep(call, generation, {key.threads});

  Backend& backend = backend_for(key.device.type());
  const std::string hardware = backend.hardware(key.device);
  const std::string name = key_of(op, key, text, hardware, call);
  const auto kept = [&]() -> std::optional<ChosenThreads> {
    const auto choice = choices::get(name);
    const auto threads = choice ? parse_threads(facts, choice->value) : std::nullopt;
    return threads ? std::optional(known_.keep(call, generation, {*threads, true})) : std::nullopt;
  };
  if (const auto chosen = kept()) return *chosen;
  if (mode == choices::Mode::Frozen) return known_.keep(call, generation, {key.threads});
  if (backend.is_capturing(key.device)) return {key.threads};

  const auto lock = lock_interruptibly(measuring_);
  if (const auto chosen = known_.find(call)) return *chosen;  // of a thread that was here before
  if (const auto chosen = kept()) return *chosen;
  try {
    choices::Choice choice = Measurement(op, kernels, key, facts, stack, run).choose();
    choice.about = "virtual threads on " + hardware + ", " + describe_class(op, key.kind, stack);
    const auto threads = parse_threads(facts, choice.value);
    TORCH_INTERNAL_ASSERT(threads, "virtual threads that were tried can be had");
    choices::put(name, std::move(choice));
    return known_.keep(call, generation, {*threads, true});
  } catch (const c10::OutOfMemoryError& error) {  // trying takes more memory than the call
    log_warning(op.qualified(key.kind), ": virtual threads are not measured: ", error.what_without_backtrace());
    return known_.keep(call, generation, {key.threads});
  }
}

}  // namespace torch_slang
