// The part of an op that PyTorch's dispatcher holds: a name that stays and an Operator that a reload may replace. The
// boxed kernels find the Operator here at each call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "operators/dispatched_call.h"
#include "operators/operator.h"

namespace torch_slang {

// One family: "slang::sqr" with its backward and launch ops. Never destroyed once made.
class RegisteredFamily {
 public:
  // The operator to run: the one pinned on this thread (operators/dispatched_call.h), else the current one.
  std::shared_ptr<const Operator> current() const;
  void replace(std::shared_ptr<const Operator> op);

  // The family's op of this kind in the dispatcher.
  c10::OperatorHandle handle(OpKind kind) const;
  // Of `<name>_jvp`; null where there is none.
  const RegisteredFamily* jvp() const { return jvp_; }
  void set_jvp(const RegisteredFamily* jvp) { jvp_ = jvp; }
  // The family of the operator of dual calls (dispatch/dual_call.h), null where there is none; and, in that family, the function's.
  const RegisteredFamily* dual() const { return dual_.load(std::memory_order_relaxed); }
  void set_dual(const RegisteredFamily* dual) { dual_.store(dual, std::memory_order_relaxed); }
  const RegisteredFamily* plain() const { return plain_.load(std::memory_order_relaxed); }
  void set_plain(const RegisteredFamily* plain) { plain_.store(plain, std::memory_order_relaxed); }
  // The family for calls under vmap (operators/sampled_operator.h), its own if it is that; null of a plain function.
  const RegisteredFamily* of_samples() const { return of_samples_.load(std::memory_order_relaxed); }
  void set_of_samples(const RegisteredFamily* family) { of_samples_.store(family, std::memory_order_relaxed); }
  // False once a reload registered other schemas than this operator's: calls then cannot go through the dispatcher.
  bool has_schemas_of(const Operator& op) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Operator> operator_;
  mutable std::optional<c10::OperatorHandle> handles_[kOpKinds];
  std::atomic<const RegisteredFamily*> jvp_ = nullptr;
  std::atomic<const RegisteredFamily*> dual_ = nullptr, plain_ = nullptr;
  std::atomic<const RegisteredFamily*> of_samples_{nullptr};
};

// The Operator of a call that comes from PyTorch, pinned on this thread while it lives: all that the call runs and records is
// of one Program, whatever another thread reloads meanwhile.
class OperatorOfCall {
 public:
  explicit OperatorOfCall(const RegisteredFamily& family) : op_(family.current()), pin_(family, *op_) {}
  const std::shared_ptr<const Operator>& get() const { return op_; }

 private:
  const std::shared_ptr<const Operator> op_;
  const PinnedOperator pin_;
};

// The arguments of a call that comes from PyTorch, which are the last on the stack, and unpacked from now on. A function that was
// scripted before a reload may have put fewer there than the operator now takes: an error.
c10::ArrayRef<c10::IValue> arguments_of_call(const Operator& op, OpKind kind, torch::jit::Stack& stack);
void pack_arguments(const Operator& op, OpKind kind, torch::jit::Stack& stack);  // as they came
// Calls on, into PyTorch, with the arguments that are the last on the stack.
void call_boxed(const c10::OperatorHandle& handle, const Operator& op, OpKind kind, torch::jit::Stack& stack);
void redispatch_boxed(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, const Operator& op, OpKind kind,
                      torch::jit::Stack& stack);

}  // namespace torch_slang
