#include "dispatch/mapped_call.h"

#include <ATen/core/stack.h>

#include <iterator>

#include "dispatch/derived_calls.h"
#include "dispatch/mapped_function.h"
#include "dispatch/mapped_loop.h"
#include "dispatch/sampled_operator.h"

namespace torch_slang {
namespace {

using torch::jit::Stack;

// The operator for samples that runs as `op` does, which may be one that was replaced since.
std::shared_ptr<const Operator> sampled(const RegisteredFamily& of_samples, const std::shared_ptr<const Operator>& op) {
  const auto current = of_samples.current();
  const auto* known = dynamic_cast<const SampledOperator*>(current.get());
  return known != nullptr && &known->plain() == op.get() ? current : std::make_shared<SampledOperator>(op);
}

void call_kernel(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 MappedArguments& arguments, Stack* stack) {
  for (size_t i = 0; i < arguments.count(); ++i) {
    if (arguments.is_tensor(i) && !arguments.is_mapped(i)) arguments.expand(i);
  }
  const RegisteredFamily& of_samples = *family.of_samples();
  const bool has_samples = &of_samples == &family;  // of inner levels
  if (has_samples) {
    stack->back() = stack->back().toInt() + 1;
  } else {
    stack->emplace_back(int64_t{1});
  }
  const auto runs = has_samples ? op : sampled(of_samples, op);
  const auto first = stack->end() - static_cast<int64_t>(runs->signature().of(kind)->arguments.size());
  Stack call(std::make_move_iterator(first), std::make_move_iterator(stack->end()));
  stack->erase(first, stack->end());
  call_as(of_samples, *runs, kind, call);
  stack->insert(stack->end(), std::make_move_iterator(call.begin()), std::make_move_iterator(call.end()));
}

}  // namespace

void call_mapped(const RegisteredFamily& family, const std::shared_ptr<const Operator>& op, OpKind kind,
                 const c10::OperatorHandle& handle, MappedArguments& arguments, c10::ArrayRef<c10::IValue> given,
                 Stack* stack) {
  arguments.check_written(op->signature().qualified(kind), *op->signature().of(kind)->schema);
  if (op->signature().function.is_kernel) {
    call_kernel(family, op, kind, arguments, stack);
  } else if (needs_loop(*op, kind, arguments)) {
    call_in_loop(handle, *op, kind, arguments, stack);
  } else {
    MappedFunction function(*op, kind, arguments);
    function.call(handle, given, stack);
  }
}

}  // namespace torch_slang
