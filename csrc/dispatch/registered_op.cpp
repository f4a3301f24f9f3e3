#include "dispatch/registered_op.h"

#include <utility>

namespace torch_slang {

std::shared_ptr<const Operator> RegisteredFamily::current() const {
  if (const Operator* pinned = pinned_operator(*this)) return pinned->shared_from_this();
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
  if (!cached)
    cached = c10::Dispatcher::singleton().findSchemaOrThrow(operator_->signature().registered(kind).c_str(), "");
  return *cached;
}

bool RegisteredFamily::has_schemas_of(const Operator& op) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return operator_.get() == &op || same_schemas(operator_->signature(), op.signature());
}

c10::ArrayRef<c10::IValue> arguments_of_call(const Operator& op, OpKind kind, const std::vector<c10::IValue>& stack) {
  const size_t count = op.signature().of(kind)->arguments.size();
  TORCH_CHECK(stack.size() >= count, op.signature().qualified(kind), ": expected ", count, " arguments, but got ",
              stack.size(), "; a function scripted before a reload that changed the arguments must be scripted again");
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
}

}  // namespace torch_slang
