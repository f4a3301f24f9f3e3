#include "operators/dispatched_call.h"

namespace torch_slang {
namespace {

// Of the calls that this thread is in: Note [beside the dispatcher].
struct DispatchedCalls {
  PinnedOperator* innermost_pin = nullptr;
  int recorded = 0;
};
thread_local DispatchedCalls calls;

}  // namespace

PinnedOperator::PinnedOperator(const RegisteredFamily& family, const Operator& op)
    : family_(&family), op_(&op), outer_(calls.innermost_pin) {
  calls.innermost_pin = this;
}

PinnedOperator::~PinnedOperator() { calls.innermost_pin = outer_; }

const Operator* pinned_operator(const RegisteredFamily& family) {
  for (const PinnedOperator* pin = calls.innermost_pin; pin != nullptr; pin = pin->outer_) {
    if (pin->family_ == &family) return pin->op_;
  }
  return nullptr;
}

RecordedCall::RecordedCall() { ++calls.recorded; }
RecordedCall::~RecordedCall() { --calls.recorded; }
bool is_call_recorded() { return calls.recorded > 0; }

}  // namespace torch_slang
