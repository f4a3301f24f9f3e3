#include "operators/registered_op.h"

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

c10::ArrayRef<c10::IValue> arguments_of_call(const Operator& op, OpKind kind, torch::jit::Stack& stack) {
  const OpSignature& signature = *op.signature().of(kind);
  const size_t given = signature.registered_schema().arguments().size();
  TORCH_CHECK(stack.size() >= given, op.signature().qualified(kind), ": expected ", given, " arguments, but got ",
              stack.size(), "; a function scripted before a reload that changed the arguments must be scripted again");
  if (signature.packed != nullptr) signature.packed->unpack(stack);
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - signature.arguments.size());
}

void pack_arguments(const Operator& op, OpKind kind, torch::jit::Stack& stack) {
  if (const auto& packed = op.signature().of(kind)->packed) packed->pack(stack);
}

void call_boxed(const c10::OperatorHandle& handle, const Operator& op, OpKind kind, torch::jit::Stack& stack) {
  pack_arguments(op, kind, stack);
  handle.callBoxed(&stack);
}

void redispatch_boxed(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, const Operator& op, OpKind kind,
                      torch::jit::Stack& stack) {
  pack_arguments(op, kind, stack);
  handle.redispatchBoxed(keys, &stack);
}

}  // namespace torch_slang
