#include "tuned/tuner.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "common/hash.h"
#include "common/identifiers.h"
#include "common/log.h"
#include "kernels/arguments.h"
#include "kernels/call_class.h"
#include "torch_slang/error.h"
#include "tuned/tuning.h"
#include "tuning/choices.h"

namespace torch_slang {
namespace {

// A list of indices, say, may be empty where there is much to do.
bool has_no_elements(c10::ArrayRef<c10::IValue> stack) {
  return std::none_of(stack.begin(), stack.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() > 0;
  });
}

}  // namespace

// One call of `front`.
class Tuner::Subject : public Search<Variant>::Subject {
 public:
  Subject(Tuner& tuner, const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
          const CallClass& call, const CallContext& context)
      : tuner_(tuner), front_(front), kind_(kind), stack_(stack), call_(call), context_(context) {
    const Arguments arguments = read_arguments(front, kind, stack);  // the caller's mistakes come first
    bind_arguments<int64_t>(front, kind, arguments);
    device_ = arguments.device;
    all_ = tuner.candidates(front, kind);
  }

  c10::Device device() const override { return device_; }
  std::string name() const override { return front_.qualified(kind_); }

  std::optional<Variant> decided(choices::Mode mode) override {
    const bool is_fixed = all_.size() == 1 || (front_.multiplies && device_.is_cpu());
    if (mode != choices::Mode::Off && !is_fixed) return std::nullopt;
    return tuner_.variant(front_, all_.front());
  }
  std::string key(const std::string& hardware) const override { return tuner_.key_of(front_, kind_, hardware, call_); }
  std::string about(const std::string& hardware) const override {
    return hardware + ", " + describe_class(front_, kind_, stack_);
  }
  std::optional<Variant> parsed(const std::string& text) override {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return describe(one) == text; });
    return found == all_.end() ? std::nullopt : std::optional(tuner_.variant(front_, *found));
  }

  std::optional<Search<Variant>::Answer> unmeasured(const Search<Variant>::Unknown& unknown) override {
    if (has_no_elements(stack_)) return Search<Variant>::Answer{nullptr};
    TORCH_CHECK(unknown.mode != choices::Mode::Frozen, name(), ": tuning is frozen, and nothing was chosen for ",
                unknown.about, " (key ", unknown.key,
                "): load choices that have it, or run once with torch_slang.tuning.mode(\"on\")");
    if (unknown.is_capturing) return Search<Variant>::Answer{nullptr};
    if (tuner_.module_->is_current()) return std::nullopt;
    log_warning_once(name() + ": the source has changed since it was loaded, so it is not tuned");
    return Search<Variant>::Answer{tuner_.variant(front_, all_.front())};
  }

  Search<Variant>::Found measured() override {
    Tuning tuning(
        front_, kind_, stack_, device_, all_, tuner_.broken_,
        [&](const TunedValues& values) { return tuner_.variant(front_, values); }, context_);
    choices::Choice choice = tuning.choose();
    return {tuner_.variant(front_, tuning.chosen()), std::move(choice), tuning.is_worth_keeping()};
  }
  Search<Variant>::Answer without_memory() override { return {nullptr}; }

 private:
  Tuner& tuner_;
  const KernelSignature& front_;
  const OpKind kind_;
  const c10::ArrayRef<c10::IValue> stack_;
  const CallClass& call_;
  const CallContext& context_;
  c10::Device device_ = c10::kCPU;
  std::vector<TunedValues> all_;
};

Tuner::Tuner(std::shared_ptr<TunedModule> module, TunedSpace space)
    : module_(std::move(module)), space_(std::move(space)) {}

Results Tuner::run(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                   const CallContext& context) {
  const CallClass call = class_of(front, kind, stack);
  std::optional<Variant> known = search_.find(call);
  if (!known) {
    Subject subject(*this, front, kind, stack, call, context);
    known = search_.choose(call, subject);
  }
  const Variant& variant = *known;
  return variant != nullptr ? variant->run(kind, stack, context) : run_first_that_works(front, kind, stack, context);
}

std::vector<std::pair<std::string, Tuner::Variant>> Tuner::in_use() const {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<std::pair<std::string, Variant>> found;
  for (const auto& one : variants_) {
    if (search_.has(one.second)) found.push_back(one);
  }
  return found;
}

Tuner::Variant Tuner::variant(const KernelSignature& front, const TunedValues& values) {
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
std::vector<TunedValues> Tuner::candidates(const KernelSignature& front, OpKind kind) const {
  if (!is_launch(kind) || !front.function.kernel().launch_total) return combinations(space_);
  TunedSpace space = space_;
  for (TunedVariable& variable : space) {
    if (mentions_name(*front.function.kernel().launch_total, variable.name)) variable.values.resize(1);
  }
  return combinations(space);
}

std::string Tuner::key_of(const KernelSignature& front, OpKind kind, const std::string& hardware,
                          const CallClass& call) const {
  Digest digest;
  digest.add("choice of a variant").add(front.qualified(kind)).add(module_->digest()).add(describe(space_));
  digest.add(hardware);
  for (const int64_t number : c10::ArrayRef<int64_t>(call).slice(1)) digest.add(number);
  return digest.hex();
}

Results Tuner::run_first_that_works(const KernelSignature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack,
                                    const CallContext& context) {
  std::exception_ptr first;
  for (const TunedValues& values : candidates(front, kind)) {
    try {
      return variant(front, values)->run(kind, stack, context);
    } catch (const CompileError&) {
      if (first == nullptr) first = std::current_exception();
    } catch (const LaunchError&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

}  // namespace torch_slang
