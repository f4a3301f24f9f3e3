#include "op/tuner.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "backend/backend.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/identifiers.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "op/arguments.h"
#include "op/choices.h"
#include "op/tuning.h"

namespace torch_slang {
namespace {

// A list of indices, say, may be empty where there is much to do.
bool has_no_elements(c10::ArrayRef<c10::IValue> stack) {
  return std::none_of(stack.begin(), stack.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() > 0;
  });
}

}  // namespace

Tuner::Tuner(std::shared_ptr<TunedModule> module, TunedSpace space)
    : module_(std::move(module)), space_(std::move(space)) {}

Results Tuner::run(const Operator& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, RunOperator run) {
  const CallClass call = class_of(front, kind, stack);
  const auto known = known_.find(call);
  const Variant variant = known ? *known : choose(front, kind, stack, call, run);
  return variant != nullptr ? run(*variant, kind, stack) : run_first_that_works(front, kind, stack, run);
}

std::vector<std::pair<std::string, Tuner::Variant>> Tuner::in_use() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<std::pair<std::string, Variant>> found;
  for (const auto& one : variants_) {
    if (known_.has(one.second)) found.push_back(one);
  }
  return found;
}

Tuner::Variant Tuner::variant(const Operator& front, const TunedValues& values) {
  const std::string name = describe(values);
  {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = variants_.find(name);
    if (found != variants_.end()) return found->second;
  }
  Variant made = module_->variant(front, values);
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  return variants_.emplace(name, std::move(made)).first->second;
}

// Note [tuned launches].
std::vector<TunedValues> Tuner::candidates(const Operator& front, OpKind kind) const {
  if (!is_launch(kind) || !front.function.launch_total) return combinations(space_);
  TunedSpace space = space_;
  for (TunedVariable& variable : space) {
    if (mentions_name(*front.function.launch_total, variable.name)) variable.values.resize(1);
  }
  return combinations(space);
}

std::string Tuner::key_of(const Operator& front, OpKind kind, const std::string& hardware,
                          const CallClass& call) const {
  Digest digest;
  digest.add("choice of a variant").add(front.qualified(kind)).add(module_->digest()).add(describe(space_));
  digest.add(hardware);
  for (const int64_t number : c10::ArrayRef<int64_t>(call).slice(1)) digest.add(number);
  return digest.hex();
}

Tuner::Variant Tuner::choose(const Operator& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                             const CallClass& call, RunOperator run) {
  const uint64_t generation = choices::generation();
  const Arguments arguments = read_arguments(front, kind, stack);  // the caller's mistakes come first
  bind_arguments<int64_t>(front, kind, arguments);
  const std::vector<TunedValues> all = candidates(front, kind);
  const choices::Mode mode = choices::mode();
  const bool is_fixed = all.size() == 1 || (front.multiplies && arguments.device.is_cpu());
  if (mode == choices::Mode::Off || is_fixed) return known_.keep(call, generation, variant(front, all.front()));

  Backend& backend = backend_for(arguments.device.type());
  const std::string hardware = backend.hardware(arguments.device);
  const std::string key = key_of(front, kind, hardware, call);
  const std::string about = hardware + ", " + describe_class(front, kind, stack);
  const auto kept = [&]() -> Variant {
    const auto choice = choices::get(key);
    if (!choice) return nullptr;
    const auto values =
        std::find_if(all.begin(), all.end(), [&](const auto& v) { return describe(v) == choice->value; });
    return values == all.end() ? nullptr : known_.keep(call, generation, variant(front, *values));
  };
  if (auto variant = kept()) return variant;
  if (has_no_elements(stack)) return nullptr;
  TORCH_CHECK(mode != choices::Mode::Frozen, front.qualified(kind), ": tuning is frozen, and nothing was chosen for ",
              about, " (key ", key, "): load choices that have it, or run once with torch_slang.tuning.mode(\"on\")");
  if (backend.is_capturing(arguments.device)) return nullptr;
  if (!module_->is_current()) {
    log_warning_once(front.qualified(kind) + ": the source has changed since it was loaded, so it is not tuned");
    return variant(front, all.front());
  }

  const auto lock = lock_interruptibly(tuning_);
  if (const auto known = known_.find(call)) return *known;  // of a thread that was here before
  if (auto variant = kept()) return variant;
  try {
    Tuning tuning(
        front, kind, stack, arguments.device, all, broken_,
        [&](const TunedValues& values) { return variant(front, values); }, run);
    choices::Choice choice = tuning.choose();
    choice.about = about;
    Variant chosen = variant(front, tuning.chosen());
    if (tuning.is_worth_keeping()) choices::put(key, std::move(choice));
    return known_.keep(call, generation, std::move(chosen));
  } catch (const c10::OutOfMemoryError& error) {  // trying takes more memory than the call
    log_warning(front.qualified(kind), " is not tuned for ", about, ": ", error.what_without_backtrace());
    return nullptr;
  }
}

Results Tuner::run_first_that_works(const Operator& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                                    RunOperator run) {
  std::exception_ptr first;
  for (const TunedValues& values : candidates(front, kind)) {
    try {
      return run(*variant(front, values), kind, stack);
    } catch (const CompileError&) {
      if (first == nullptr) first = std::current_exception();
    } catch (const LaunchError&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

}  // namespace torch_slang
