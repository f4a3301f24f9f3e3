#include "operator/registered_op.h"

#include <utility>

namespace torch_slang {

namespace {
thread_local PinnedOperator* innermost_pin = nullptr;
}  // namespace

PinnedOperator::PinnedOperator(const RegisteredFamily& family, const Operator& op)
    : family_(&family), op_(&op), outer_(innermost_pin) {
  innermost_pin = this;
}

PinnedOperator::~PinnedOperator() { innermost_pin = outer_; }

std::shared_ptr<const Operator> RegisteredFamily::current() const {
  for (const PinnedOperator* pin = innermost_pin; pin != nullptr; pin = pin->outer_) {
    if (pin->family_ == this) return std::static_pointer_cast<const Operator>(pin->op_->shared_from_this());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return operator_;
}

void RegisteredFamily::replace(std::shared_ptr<const Operator> op) {
  const std::lock_guard<std::mutex> lock(mutex_);
  operator_ = std::move(op);
  for (auto& handle : handles_) handle.reset();
}

c10::OperatorHandle RegisteredFamily::handle(OpKind kind) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& cached = handles_[static_cast<int>(kind)];
  if (!cached) cached = c10::Dispatcher::singleton().findSchemaOrThrow(operator_->qualified(kind).c_str(), "");
  return *cached;
}

bool RegisteredFamily::has_schemas_of(const Operator& op) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return operator_.get() == &op || same_schemas(*operator_, op);
}

c10::ArrayRef<c10::IValue> arguments_of_call(const Operator& op, OpKind kind, const std::vector<c10::IValue>& stack) {
  const size_t count = op.signature(kind)->arguments.size();
  TORCH_CHECK(stack.size() >= count, op.qualified(kind), ": expected ", count, " arguments, but got ", stack.size(),
              "; a function scripted before a reload that changed the arguments must be scripted again");
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
}

bool same_schemas(const Operator& a, const Operator& b) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const auto* first = a.signature(static_cast<OpKind>(kind));
    const auto* second = b.signature(static_cast<OpKind>(kind));
    if ((first == nullptr) != (second == nullptr)) return false;
    if (first != nullptr && c10::toString(*first->schema) != c10::toString(*second->schema)) return false;
  }
  return true;
}

}  // namespace torch_slang
