#include "audit/audits.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "audit/examination.h"
#include "audit/mode.h"
#include "audit/queue.h"
#include "cache/cache.h"
#include "common/hash.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "functions/arguments.h"
#include "kernels/arguments.h"
#include "program/compiler_client.h"

namespace torch_slang::audit {
namespace {

constexpr const char* kFormat = "4";  // the version of the cache entries: another one when audits compare otherwise

bool is_of_tangents(const Operator& op) { return !op.signature().function.tangents_of.empty(); }

// A hash of what chooses the audit of a call: the operator, the dtypes and, where the function is generic over them, sizes. Never 0.
uint64_t class_of(const Operator& called, OpKind kind, Operator::Stack arguments) {
  const bool has_sizes = called.signature().function.size_count() > 0;
  size_t hash = c10::hash_combine(static_cast<size_t>(kind), static_cast<size_t>(is_of_tangents(called)));
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    hash = c10::hash_combine(hash, static_cast<size_t>(tensor.scalar_type()));
    if (has_sizes && tensor.dim() > 0) hash = c10::hash_combine(hash, static_cast<size_t>(tensor.size(-1)));
  }
  return hash | 1;
}

Audits::Key key_of(const Operator& called, OpKind kind, Operator::Stack arguments) {
  const Signature& signature = called.signature();
  const Order order = is_of_tangents(called) && kind == OpKind::Backward ? Order::Second : Order::First;
  if (signature.function.is_kernel()) {
    return {order, types_and_device(static_cast<const KernelSignature&>(signature), kind, arguments).first, {}};
  }
  const Arguments read = read_arguments(static_cast<const ElementwiseSignature&>(signature), kind, arguments);
  return {order, read.types, read.sizes};
}

std::string listed(const std::vector<ElementType>& types) {
  std::string text;
  for (const ElementType type : types) text += (text.empty() ? "" : ", ") + std::string(name_of(type));
  return text;
}

// Names the compiler that makes texts here. Empty where no compiler is installed: all texts come from the disk cache then.
std::string stamp_of_compiler() {
  try {
    return compiler_stamp();
  } catch (const c10::Error&) {
    return "";
  }
}

// The key names the backward's text, and the compiler: the forward derivative that it is compared with is made by that too.
std::string cache_key_of(const Operator& called, const Audits::Key& key) {
  const DeviceText& text = called.signature().text(OpKind::Backward, key.types, key.sizes);
  Digest digest;
  digest.add(kFormat).add(stamp_of_compiler());
  return digest.add(static_cast<int64_t>(key.order)).add(text.file_scope).add(text.body).hex();
}

// A call under vmap has samples (Note [samples] in backend/samples.h): the call of the first one. Null if there are no samples.
std::optional<std::vector<c10::IValue>> first_sample(Operator::Stack arguments) {
  const int64_t dims = arguments.back().toInt();
  std::vector<c10::IValue> sample(arguments.begin(), arguments.end() - 1);
  for (c10::IValue& value : sample) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    at::Tensor tensor = value.toTensor();
    for (int64_t d = 0; d < dims; ++d) {
      if (tensor.size(0) == 0) return std::nullopt;
      tensor = tensor.select(0, 0);
    }
    value = tensor;
  }
  return sample;
}

struct All {
  std::mutex mutex;
  std::vector<std::weak_ptr<const Audits>> audits;
};

All& all_audits() {
  static auto* instance = new All;  // operators may be made until the process ends
  return *instance;
}

[[noreturn]] void throw_wrong(const Operator& called, OpKind kind, const Finding& finding) {
  TORCH_CHECK(false, called.signature().qualified(kind), ": ", finding.text,
              ". This was found by comparing its derivatives (docs/audit.md); torch_slang.audit.accept(\"",
              finding.name, "\") takes them as they are");
}

}  // namespace

void Audits::after(const Operator& called, OpKind kind, Operator::Stack arguments, bool keeps_samples) {
  const bool is_backward = kind == OpKind::Backward;
  if (mode() == Mode::Off || (!is_backward && !has_wrong_tangents_)) return;
  const uint64_t call = class_of(called, kind, arguments);
  std::atomic<uint64_t>& settled = settled_[call / 2 % settled_.size()];
  if (settled.load(std::memory_order_relaxed) == call) return;
  const Key key = key_of(called, kind, arguments);
  if (is_backward && !keeps_samples) ask(called, arguments, key);
  if (is_backward && keeps_samples) {
    if (const auto sample = first_sample(arguments)) ask(called, *sample, key);
  }

  const Entry entry = entry_of(key);
  const Finding& finding = entry.finding;
  const bool is_wrong = finding.outcome == (is_backward ? Outcome::Wrong : Outcome::WrongTangents);
  if (is_wrong && !is_accepted(finding.name)) throw_wrong(called, kind, finding);
  if (entry.is_settled && !is_wrong) settled.store(call, std::memory_order_relaxed);
}

void Audits::ask(const Operator& called, Operator::Stack arguments, const Key& key) {
  const auto f = f_.lock();
  if (f == nullptr) return;
  Entry entry = entry_of(key);
  const bool is_new = entry.cache_key.empty();
  if (entry.is_settled || (!is_new && entry.finding.outcome == Outcome::Waiting)) return;
  if (is_new) {
    entry.finding.name = f->signature().full_name();
    entry.finding.order = key.order;
    entry.finding.types = listed(key.types);
    entry.cache_key = cache_key_of(called, key);
    const auto payload = cache::read(cache::Kind::Audit, entry.cache_key);
    if (const auto earlier = payload ? from_payload(*payload) : std::nullopt) {
      entry.finding.outcome = earlier->outcome;
      entry.finding.text = earlier->text;
      entry.is_settled = true;
      return put(key, std::move(entry));
    }
  }
  auto problem = keep_problem(*f, called, arguments, entry.takes_parts);
  if (!problem) return;  // a later call may have one
  entry.finding.outcome = problem->refusal.empty() ? Outcome::Waiting : Outcome::NotAudited;
  entry.finding.text = problem->refusal;
  if (!problem->refusal.empty()) {
    entry.takes_parts = false;
    return put(key, std::move(entry));  // a later call may have fewer elements
  }
  if (!begin(key, entry)) return;
  const auto end =
      enqueue([self = shared_from_this(), job = Job{f, key, *std::move(problem), entry}] { self->run(job); });
  if (mode() == Mode::First || f->signature().options.debug.value_or(false)) {
    hurry();
    wait_interruptibly_for(end);
  }
}

void Audits::run(const Job& job) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::AutoGradMode no_gradients(false);
  Entry entry = job.entry;
  Finding& finding = entry.finding;
  const auto begin = std::chrono::steady_clock::now();
  const Verdict verdict = examine(*job.f, make_, job.key.order, job.key.types, job.key.sizes, job.problem);
  finding.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  finding.outcome = verdict.outcome;
  finding.text = verdict.text;
  entry.takes_parts = !(job.problem.is_part && finding.outcome == Outcome::NotAudited);
  entry.is_settled = entry.takes_parts;
  log_debug(finding.name, ": audit of the derivative of order ", static_cast<int>(finding.order), ": ", finding.text);
  // What could not be audited here may be elsewhere.
  if (finding.outcome != Outcome::NotAudited) {
    cache::write(cache::Kind::Audit, entry.cache_key, to_payload(finding));
  }
  const bool is_wrong = finding.outcome == Outcome::Wrong || finding.outcome == Outcome::WrongTangents;
  if (is_wrong && mode() == Mode::Background && !is_accepted(finding.name)) {
    log_warning("gradients that this process has computed so far with ", finding.name, " may be wrong: ", finding.text);
  }
  if (finding.outcome == Outcome::Differs) log_warning(finding.name, ": ", finding.text);
  put(job.key, std::move(entry));
}

void Audits::put(const Key& key, Entry entry) {
  if (entry.finding.outcome == Outcome::WrongTangents) has_wrong_tangents_ = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_[key] = std::move(entry);
}

bool Audits::begin(const Key& key, const Entry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& known = entries_[key];
  if (!known.cache_key.empty() && known.finding.outcome == Outcome::Waiting) return false;
  known = entry;
  return true;
}

Audits::Entry Audits::entry_of(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? Entry{} : found->second;
}

std::vector<Finding> Audits::findings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Finding> all;
  for (const auto& [key, entry] : entries_) {
    all.push_back(entry.finding);
    all.back().is_accepted = is_accepted(entry.finding.name);
  }
  return all;
}

std::shared_ptr<Audits> make_audits(const std::shared_ptr<const Operator>& f, MakeOperator make) {
  auto made = std::make_shared<Audits>(f, std::move(make));
  All& all = all_audits();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.audits, [](const auto& one) { return one.expired(); });
  all.audits.push_back(made);
  return made;
}

std::vector<Finding> report() {
  std::vector<Finding> found;
  {
    All& all = all_audits();
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto& one : all.audits) {
      const auto audits = one.lock();
      if (audits == nullptr) continue;
      for (Finding& finding : audits->findings()) found.push_back(std::move(finding));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) { return a.name < b.name; });
  return found;
}

}  // namespace torch_slang::audit
