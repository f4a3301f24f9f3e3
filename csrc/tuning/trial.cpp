#include "tuning/trial.h"

#include <ATen/Functions.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/backend.h"

namespace torch_slang {
namespace {

constexpr double kTimeEach = 0.02;  // seconds that timing one variant should take
constexpr int kMinRounds = 3;
constexpr int kMaxRounds = 30;
constexpr double kTimeOfTurn = 0.004;  // that of one variant
constexpr size_t kMostTurns = 9, kLeastTurns = 3;
constexpr int64_t kChunk = int64_t{1} << 22;  // elements that are compared at a time

at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.storage().nbytes());
  return at::empty({0}, tensor.options().dtype(c10::kByte)).set_(tensor.storage(), 0, {count}, {1});
}

// Sums in another order, atomics in half precision: what right variants may differ by, of the whole tensor's norm.
double tolerance(c10::ScalarType type) {
  switch (type) {
    case c10::kDouble: return 1e-7;
    case c10::kFloat: return 2e-3;
    case c10::kHalf:
    case c10::kBFloat16: return 5e-2;
    default: return 0;  // not asked
  }
}

bool agree(const at::Tensor& a, const at::Tensor& b) {
  if (!c10::isFloatingType(a.scalar_type())) {  // as bytes: PyTorch cannot compare all integers
    return a.reshape({-1}).view(c10::kByte).equal(b.reshape({-1}).view(c10::kByte));
  }
  const at::Tensor x = a.reshape({-1}), y = b.reshape({-1});
  double error = 0, norm = 0;
  for (int64_t begin = 0; begin < x.numel(); begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, x.numel());
    const at::Tensor p = x.slice(0, begin, end), q = y.slice(0, begin, end);
    const at::Tensor finite = p.isfinite();
    if (!finite.equal(q.isfinite())) return false;
    const at::Tensor zero = at::zeros({}, x.options().dtype(c10::kDouble));
    const at::Tensor u = at::where(finite, p.to(c10::kDouble), zero), v = at::where(finite, q.to(c10::kDouble), zero);
    error += u.sub(v).square().sum().item().toDouble();
    norm += std::max(u.square().sum().item().toDouble(), v.square().sum().item().toDouble());
  }
  // Sums that cancel are noise around zero, which no norm of theirs measures.
  constexpr double kNoise = 1e-12;
  return std::sqrt(error) <= tolerance(x.scalar_type()) * (std::sqrt(norm) + kNoise * std::sqrt(x.numel())) ||
         error <= kNoise * static_cast<double>(x.numel());
}

}  // namespace

Trial::Trial(const Signature& front, OpKind kind, c10::ArrayRef<c10::IValue> stack, c10::Device device,
             CallContext context)
    : guard_(device), kind_(kind), device_(device), context_(std::move(context)), stack_(stack.begin(), stack.end()) {
  context_.is_unmeasured = true;
  if (!is_launch(kind)) return;
  const auto& schema = front.of(kind)->schema->arguments();
  const auto is_tensor = [&](size_t i) { return stack_[i].isTensor() && stack_[i].toTensor().defined(); };
  std::vector<bool> is_written(stack_.size(), false);
  std::vector<const void*> storages;  // that may be written
  for (size_t i = 0; i < schema.size(); ++i) {
    is_written[i] = is_tensor(i) && schema[i].alias_info() != nullptr && schema[i].alias_info()->isWrite();
    if (is_written[i]) storages.push_back(stack_[i].toTensor().storage().unsafeGetStorageImpl());
  }
  for (size_t i = 0; i < stack_.size(); ++i) {
    if (!is_tensor(i)) continue;
    const void* storage = stack_[i].toTensor().storage().unsafeGetStorageImpl();
    if (std::find(storages.begin(), storages.end(), storage) == storages.end()) continue;
    stack_[i] = copied(stack_[i].toTensor());
    if (is_written[i]) written_.push_back(stack_[i].toTensor());
  }
}

at::Tensor Trial::copied(const at::Tensor& tensor) {
  const at::Tensor original = bytes_of(tensor);
  auto copy = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& one) {
    return one.original.storage().unsafeGetStorageImpl() == original.storage().unsafeGetStorageImpl();
  });
  if (copy == copies_.end()) {
    copies_.push_back({original, at::empty_like(original)});
    copy = copies_.end() - 1;
  }
  return at::empty({0}, tensor.options())
      .set_(copy->bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

void Trial::restore() {
  for (const Copy& copy : copies_) copy.bytes.copy_(copy.original);
}

std::vector<at::Tensor> Trial::outcome(Results results) const {
  if (!is_launch(kind_)) return {results.begin(), results.end()};
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : written_) tensors.push_back(tensor.clone());
  return tensors;
}

void Trial::run(const Run& variant) {
  restore();
  variant(stack_, context_);
}

bool Trial::agrees(const Run& variant) {
  restore();
  CallContext context = context_;
  context.marks_outputs = true;  // else memory that was just freed would show what an earlier variant wrote there
  const std::vector<at::Tensor> got = outcome(variant(stack_, context));
  if (expected_.empty()) {
    expected_ = got;
    return true;
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].defined() && !agree(expected_[i], got[i])) return false;
  }
  return true;
}

double Trial::seconds(const Run& variant, int rounds) {
  Backend& backend = backend_for(device_.type());
  const auto work = [&] { variant(stack_, context_); };
  if (copies_.empty()) return backend.seconds(device_, work, rounds);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < rounds; ++i) {
    restore();
    least = std::min(least, backend.seconds(device_, work, 1));
  }
  return least;
}

double Trial::seconds_of_several(const Run& variant, double hopeless) {
  double least = seconds(variant, 1);
  // Once may be an accident, of a machine that has more to do.
  if (least >= hopeless && least < kTimeEach) least = std::min(least, seconds(variant, kMinRounds));
  if (least >= hopeless) return least;
  const int rounds = std::clamp(static_cast<int>(kTimeEach / std::max(least, 1e-6)), kMinRounds, kMaxRounds);
  return std::min(least, seconds(variant, rounds));
}

std::vector<double> Trial::seconds_in_turns(const std::vector<Run>& variants, c10::function_ref<bool()> is_late) {
  std::vector<std::vector<double>> taken(variants.size());
  const auto take = [&](size_t one) {
    const double before = taken[one].empty() ? seconds(variants[one], 1) : taken[one].back();
    const int rounds = std::clamp(static_cast<int>(kTimeOfTurn / std::max(before, 1e-6)), 1, kMaxRounds);
    taken[one].push_back(seconds(variants[one], rounds));
  };
  size_t turns = 0;  // that all have had
  for (bool forwards = true; turns < kMostTurns && !is_late(); forwards = !forwards) {
    size_t done = 0;
    for (; done < variants.size() && !is_late(); ++done) take(forwards ? done : variants.size() - 1 - done);
    if (done == variants.size()) ++turns;
  }
  std::vector<double> medians;
  if (turns < kLeastTurns) return medians;
  for (std::vector<double>& of_one : taken) {
    std::nth_element(of_one.begin(), of_one.begin() + turns / 2, of_one.begin() + turns);
    medians.push_back(of_one[turns / 2]);
  }
  return medians;
}

}  // namespace torch_slang
