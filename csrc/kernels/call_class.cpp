#include "kernels/call_class.h"

#include <ATen/core/Tensor.h>
#include <c10/util/llvmMathExtras.h>

#include "operators/arguments.h"

namespace torch_slang {
namespace {

// Of a matrix's tiles the last ones may leave most of a device idle, for sizes that are not far apart: seven sizes more lie
// between powers of two.
int64_t rounded(const KernelSignature& op, int64_t size) {
  if (size <= 1) return size;
  const auto power = static_cast<int64_t>(c10::llvm::PowerOf2Ceil(static_cast<uint64_t>(size)));
  if (!op.multiplies || power < 16) return power;
  const int64_t step = power / 16;
  return (size + step - 1) / step * step;
}

bool counts(const KernelSignature& op, const OpArgument& argument) {
  return argument.role == OpArgument::Role::Leaf && op.shapes.symbol_of_value(argument.leaf) >= 0;
}

int64_t integer_of(const c10::IValue& value) {
  return value.isBool()     ? static_cast<int64_t>(value.toBool())
         : value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__)
                            : value.toInt();
}

void add_tensor(const KernelSignature& op, const at::Tensor& tensor, CallClass& result) {
  if (!tensor.defined()) {
    result.push_back(-1);
    return;
  }
  result.append({static_cast<int64_t>(tensor.device().type()), static_cast<int64_t>(tensor.scalar_type()),
                 static_cast<int64_t>(tensor.is_contiguous()), tensor.dim()});
  for (const int64_t size : tensor.sizes()) result.push_back(rounded(op, size));
}

}  // namespace

CallClass class_of(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  CallClass result = {-1, static_cast<int64_t>(kind)};
  const auto& arguments = op.of(kind)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {  // dimensions of samples are in the tensors' ranks
    const c10::IValue& value = stack[i];
    switch (arguments[i].role) {
      case OpArgument::Role::Leaf:
      case OpArgument::Role::Gradient:
        if (value.isTensor()) {
          add_tensor(op, value.toTensor(), result);
          if (value.toTensor().defined() && !value.toTensor().device().is_cpu())
            result[0] = value.toTensor().device().index();
        } else if (counts(op, arguments[i])) {
          result.push_back(rounded(op, integer_of(value)));
        } else {
          result.push_back(value.isNone() ? -1 : 0);
        }
        break;
      case OpArgument::Role::Mask:
        for (const bool wanted : value.toBoolList()) result.push_back(static_cast<int64_t>(wanted));
        break;
      case OpArgument::Role::BlockSize:
        for (const int64_t threads : value.toIntVector()) result.push_back(threads);
        break;
      case OpArgument::Role::GridSize:
        for (const int64_t blocks : value.toIntVector()) result.push_back(rounded(op, blocks));
        break;
      case OpArgument::Role::SampleDims: break;
    }
  }
  if (stack.size() > arguments.size()) result.push_back(stack.back().toInt());
  return result;
}

std::string describe_class(const KernelSignature& op, OpKind kind, c10::ArrayRef<c10::IValue> stack) {
  const auto& arguments = op.of(kind)->arguments;
  const auto& schema = op.of(kind)->schema->arguments();
  std::string text;
  const auto add = [&](size_t i, const std::string& what) {
    text += (text.empty() ? "" : ", ") + schema[i].name() + ": " + what;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& tensor = value.toTensor();
      c10::SmallVector<int64_t, 6> sizes;
      for (const int64_t size : tensor.sizes()) sizes.push_back(rounded(op, size));
      add(i, dtype_text(tensor.scalar_type()) + c10::str(" ", c10::IntArrayRef(sizes)) +
                 (tensor.is_contiguous() ? "" : " strided"));
    } else if (counts(op, arguments[i])) {
      add(i, std::to_string(rounded(op, integer_of(value))));
    } else if (value.isIntList() || value.isBoolList()) {
      add(i, c10::str(value));
    }
  }
  return text;
}

}  // namespace torch_slang
