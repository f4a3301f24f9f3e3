// Facts about a call that our kernels in PyTorch's dispatcher pass to each other beside its arguments.
//
// Note [beside the dispatcher]
//   Everywhere else such facts are passed as a CallContext. Between Module callables or the graph's nodes,
//   our Autograd kernel and our CPU and CUDA kernels stands the dispatcher, whose boxed kernels are given a stack of arguments
//   and nothing else; functorch, modes and fake tensors come between, so a call cannot go past it. So this alone is told by
//   thread. The dispatcher calls kernels on the caller's thread.
#pragma once

namespace torch_slang {

class Operator;
class RegisteredFamily;

// While it lives, calls of `family` on this thread run `op`: Module callables and recorded graphs keep the Program they
// were made with. Nests.
class PinnedOperator {
 public:
  PinnedOperator(const RegisteredFamily& family, const Operator& op);
  ~PinnedOperator();
  PinnedOperator(const PinnedOperator&) = delete;
  PinnedOperator& operator=(const PinnedOperator&) = delete;

 private:
  friend const Operator* pinned_operator(const RegisteredFamily& family);
  const RegisteredFamily* family_;
  const Operator* op_;
  PinnedOperator* outer_;
};

const Operator* pinned_operator(const RegisteredFamily& family);  // on this thread; null if there is none

// While it lives, autograd records the calls on this thread: CallContext::is_recorded.
class RecordedCall {
 public:
  RecordedCall();
  ~RecordedCall();
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;
};

bool is_call_recorded();  // on this thread

}  // namespace torch_slang
