#include "kernels/thread_choices.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <limits>

#include "common/hash.h"
#include "kernels/call_class.h"
#include "program/intrinsics.h"
#include "tuning/choices.h"
#include "tuning/trial.h"

namespace torch_slang {
namespace {

constexpr double kHopeless = 1.2;  // times the likely best: a slower candidate need not be measured more exactly

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One search for the fastest, for one call.
class Measurement {
 public:
  Measurement(const KernelSignature& op, KernelTable& kernels, const KernelKey& key, const ThreadFacts& facts,
              c10::ArrayRef<c10::IValue> stack, const CallContext& context, ThreadChoices::Run run)
      : op_(op),
        kernels_(kernels),
        key_(key),
        facts_(facts),
        context_(of_trials(context)),
        run_(run),
        trial_(op, key.kind, stack, key.device, context_) {}

  choices::Choice choose() {
    const VirtualThreads fastest = fastest_threads(facts_, key_.threads, [&](const auto& all) { return times(all); });
    choice_.op = op_.qualified(key_.kind);
    choice_.value = describe(fastest);
    choice_.spent = seconds_since(start_);
    return std::move(choice_);
  }

 private:
  static CallContext of_trials(CallContext context) {
    context.hides_kernels = true;
    return context;
  }

  std::vector<double> times(const std::vector<VirtualThreads>& all) {
    for (const VirtualThreads& threads : all) kernels_.prefetch(with(threads), context_);
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
    const VirtualThreads compiled = kernels_.get(with(threads), context_)->threads;
    for (const auto& [known, value] : compiled_) {
      if (known != compiled) continue;
      attempt.problem = "the same as " + value;
      return;
    }
    const Trial::Run run = [&](c10::ArrayRef<c10::IValue> stack, CallContext context) {
      context.threads = threads;
      return run_(stack, context);
    };
    trial_.run(run);
    attempt.seconds = trial_.seconds_of_several(run, hopeless_);
    if (compiled_.empty()) hopeless_ = kHopeless * attempt.seconds;
    compiled_.emplace_back(compiled, attempt.value);
  }

  const KernelSignature& op_;
  KernelTable& kernels_;
  const KernelKey& key_;
  const ThreadFacts& facts_;
  const CallContext context_;
  const ThreadChoices::Run run_;
  Trial trial_;
  const Clock::time_point start_ = Clock::now();
  std::vector<std::pair<VirtualThreads, std::string>> compiled_;  // the timed candidates, as they were compiled
  double hopeless_ = std::numeric_limits<double>::infinity();
  choices::Choice choice_;
};

// One call.
class ThreadSubject : public Search<ChosenThreads>::Subject {
 public:
  ThreadSubject(const KernelSignature& op, KernelTable& kernels, const KernelKey& key, const ThreadFacts& facts,
                c10::ArrayRef<c10::IValue> stack, const CallContext& context, ThreadChoices::Run run,
                const CallClass& call)
      : op_(op),
        kernels_(kernels),
        key_(key),
        facts_(facts),
        stack_(stack),
        context_(context),
        run_(run),
        call_(call),
        text_(op.text(key.kind, key.types)) {
    facts_.runs_one = text_.waves || text_.barriers;
    facts_.may_sum = facts_.may_sum && uses(text_, {intrinsics::kAccumulate});
    facts_.may_tile = facts_.may_sum && !text_.waves;
  }

  c10::Device device() const override { return key_.device; }
  std::string name() const override { return op_.qualified(key_.kind); }

  std::optional<ChosenThreads> decided(choices::Mode mode) override {
    const bool is_measured =
        mode != choices::Mode::Off && is_worth_measuring(facts_) && (!facts_.runs_one || facts_.may_sum);
    return is_measured ? std::nullopt : std::optional(likely());
  }
  std::string key(const std::string& hardware) const override {
    Digest digest;
    digest.add("choice of virtual threads").add(name()).add(text_.body).add(text_.file_scope).add(hardware);
    for (const int64_t number : c10::ArrayRef<int64_t>(call_).slice(1)) digest.add(number);
    if (facts_.may_sum) digest.add("wave sums");
    if (facts_.may_tile) digest.add("tiled waves");
    return digest.hex();
  }
  std::string about(const std::string& hardware) const override {
    return "virtual threads on " + hardware + ", " + describe_class(op_, key_.kind, stack_);
  }
  std::optional<ChosenThreads> parsed(const std::string& text) override {
    const auto threads = parse_threads(facts_, text);
    return threads ? std::optional(ChosenThreads{*threads, true}) : std::nullopt;
  }

  std::optional<Search<ChosenThreads>::Answer> unmeasured(const Search<ChosenThreads>::Unknown& unknown) override {
    const bool is_frozen = unknown.mode == choices::Mode::Frozen;
    if (!is_frozen && !unknown.is_capturing) return std::nullopt;
    return Search<ChosenThreads>::Answer{likely(), is_frozen};
  }

  Search<ChosenThreads>::Found measured() override {
    choices::Choice choice = Measurement(op_, kernels_, key_, facts_, stack_, context_, run_).choose();
    const auto threads = parsed(choice.value);
    TORCH_INTERNAL_ASSERT(threads, "virtual threads that were tried can be had");
    return {*threads, std::move(choice)};
  }
  Search<ChosenThreads>::Answer without_memory() override { return {likely(), true}; }

 private:
  ChosenThreads likely() const { return {key_.threads}; }

  const KernelSignature& op_;
  KernelTable& kernels_;
  const KernelKey& key_;
  ThreadFacts facts_;
  const c10::ArrayRef<c10::IValue> stack_;
  const CallContext& context_;
  const ThreadChoices::Run run_;
  const CallClass& call_;
  const DeviceText& text_;
};

}  // namespace

ChosenThreads ThreadChoices::get(const KernelSignature& op, KernelTable& kernels, const KernelKey& key,
                                 const ThreadFacts& facts, c10::ArrayRef<c10::IValue> stack, const CallContext& context,
                                 Run run) {
  const VirtualThreads& likely = key.threads;
  if (context.is_unmeasured) return {context.threads.value_or(likely)};
  if (!is_worth_measuring(facts)) return {likely};
  CallClass call = class_of(op, key.kind, stack);
  call.append({static_cast<int64_t>(key.strided), key.independent, likely.lanes, likely.groups(), likely.repeats,
               likely.axis, facts.lanes});
  if (const auto chosen = search_.find(call)) return *chosen;
  ThreadSubject subject(op, kernels, key, facts, stack, context, run, call);
  return search_.choose(call, subject);
}

}  // namespace torch_slang
