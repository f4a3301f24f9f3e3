#include "module/host_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <atomic>

#include "operators/faults.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

#define SAME_NUMBER(name) static_assert(static_cast<int>(ElementType::name) == kTsl##name)
SAME_NUMBER(Float16);
SAME_NUMBER(BFloat16);
SAME_NUMBER(Float32);
SAME_NUMBER(Float64);
SAME_NUMBER(Int8);
SAME_NUMBER(Int16);
SAME_NUMBER(Int32);
SAME_NUMBER(Int64);
SAME_NUMBER(UInt8);
SAME_NUMBER(Bool);
#undef SAME_NUMBER

using TensorPointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

HostCall& call_of(void* call) { return *static_cast<HostCall*>(call); }

// A borrowed tensor of the text.
at::Tensor tensor_of(const HostCall& call, void* tensor) {
  TORCH_CHECK(tensor != nullptr, call.name, ": a TorchTensor is used before it is given a value");
  return at::Tensor(TensorPointer::reclaim_copy(static_cast<c10::TensorImpl*>(tensor)));
}

// Runs `work`; an exception is kept until the text has unwound.
template <class Work>
int guarded(void* call, const Work& work) {
  try {
    work(call_of(call));
    return 0;
  } catch (...) {
    call_of(call).error = std::current_exception();
    return 1;
  }
}

c10::TensorOptions options_of(int type) { return c10::dtype(scalar_type(static_cast<ElementType>(type))); }

void retain(void* tensor) { c10::raw::intrusive_ptr::incref(static_cast<c10::TensorImpl*>(tensor)); }
void release(void* tensor) { take_tensor(tensor); }

int empty(void* call, const long long* sizes, int count, int type, void** result) {
  return guarded(call, [&](HostCall& self) {
    const std::vector<int64_t> shape(sizes, sizes + count);
    *result = give_tensor(at::empty(shape, options_of(type).device(self.device)));
  });
}

int empty_like(void* call, void* other, int type, void** result) {
  return guarded(
      call, [&](HostCall& self) { *result = give_tensor(at::empty_like(tensor_of(self, other), options_of(type))); });
}

c10::Scalar scalar_of(const TslComponent& component) {
  return component.kind == kTslReal ? c10::Scalar(component.real)
                                    : c10::Scalar(static_cast<int64_t>(component.integer));
}

int fill(void* call, void* tensor, const TslComponent* value, int count) {
  return guarded(call, [&](HostCall& self) {
    const at::Tensor target = tensor_of(self, tensor);
    for (int i = 0; i < count; ++i) {
      const at::Tensor part = count == 1 ? target : target.select(-1, i);
      part.fill_(scalar_of(value[i]));
    }
  });
}

int dims(void* call, void* tensor, long long* result) {
  return guarded(call, [&](HostCall& self) { *result = tensor_of(self, tensor).dim(); });
}

void check_dimension(const HostCall& call, const at::Tensor& tensor, long long dimension) {
  TORCH_CHECK(dimension >= 0 && dimension < tensor.dim(), call.name, ": asks for dimension ", dimension,
              " of a tensor of shape ", tensor.sizes());
}

int size(void* call, void* tensor, long long dimension, long long* result) {
  return guarded(call, [&](HostCall& self) {
    const at::Tensor known = tensor_of(self, tensor);
    check_dimension(self, known, dimension);
    *result = known.size(dimension);
  });
}

int stride(void* call, void* tensor, long long dimension, long long* result) {
  return guarded(call, [&](HostCall& self) {
    const at::Tensor known = tensor_of(self, tensor);
    check_dimension(self, known, dimension);
    *result = known.stride(dimension);
  });
}

int data(void* call, void* tensor, void** result) {
  return guarded(call, [&](HostCall& self) { *result = tensor_of(self, tensor).mutable_data_ptr(); });
}

int synchronize(void* call) {
  return guarded(call, [](HostCall& self) {
    if (self.device.is_cpu()) return;
    c10::impl::VirtualGuardImpl(self.device.type()).getStream(self.device).synchronize();
  });
}

// The arguments of a dispatch as the launch op of the kernel takes them.
class LaunchArguments {
 public:
  LaunchArguments(const HostCall& call, const Operator& op, const TslComponent* components, int count)
      : call_(call), op_(op.signature()), leaves_(op_.function.leaves) {
    for (const Leaf& leaf : leaves_) {
      first_.push_back(components);
      components += host_components(leaf);
      count -= static_cast<int>(host_components(leaf));
    }
    TORCH_INTERNAL_ASSERT(count == 0, call.name, ": ", count, " components too many in the dispatch of ",
                          op_.function.name);
  }

  std::vector<c10::IValue> stack(const unsigned* grid, const unsigned* block) const {
    std::vector<c10::IValue> stack;
    for (const OpArgument& argument : op_.of(OpKind::Launch)->arguments) {
      switch (argument.role) {
        case OpArgument::Role::Leaf: stack.push_back(value(argument.leaf)); break;
        case OpArgument::Role::BlockSize: stack.emplace_back(std::vector<int64_t>(block, block + 3)); break;
        case OpArgument::Role::GridSize: stack.emplace_back(std::vector<int64_t>(grid, grid + 3)); break;
        case OpArgument::Role::Gradient: stack.emplace_back(); break;
        case OpArgument::Role::SampleDims: break;
        default: TORCH_INTERNAL_ASSERT(false, "a launch has no such argument");
      }
    }
    return stack;
  }

 private:
  c10::IValue value(int index) const {
    const Leaf& leaf = leaves_[index];
    if (leaf.is_view()) return tensor(index);
    if (leaf.differentiable) return number_tensor(index);
    const ElementType type = leaf.element.type;
    if (leaf.element.type_parameter >= 0 || is_floating_point(type)) return numbers<double>(index);
    return type == ElementType::Bool ? numbers<bool>(index) : numbers<int64_t>(index);
  }

  at::Tensor tensor(int index) const {
    void* given = first_[index]->tensor;
    TORCH_CHECK(given != nullptr, call_.name, ": dispatches ", op_.function.name, " with ", leaves_[index].path,
                " that was never given a value");
    return tensor_of(call_, given);
  }

  template <class T>
  T number(const TslComponent& component) const {
    return component.kind == kTslReal ? static_cast<T>(component.real) : static_cast<T>(component.integer);
  }

  template <class T>
  c10::IValue numbers(int index) const {
    const Leaf& leaf = leaves_[index];
    if (leaf.element.shape.empty()) return number<T>(*first_[index]);
    c10::List<T> list;
    for (int64_t i = 0; i < component_count(leaf.element); ++i) list.push_back(number<T>(first_[index][i]));
    return list;
  }

  at::Tensor number_tensor(int index) const {
    const Leaf& leaf = leaves_[index];
    std::vector<double> values;
    for (int64_t i = 0; i < component_count(leaf.element); ++i) values.push_back(number<double>(first_[index][i]));
    return at::tensor(values, at::kDouble).view(leaf.element.shape).to(dtype_of(leaf.element));
  }

  // That of a generic value is the one of the views of the same type parameter.
  c10::ScalarType dtype_of(const Element& element) const {
    if (element.type_parameter < 0) return scalar_type(element.type);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i].is_view() || leaves_[i].element.type_parameter != element.type_parameter) continue;
      return tensor(static_cast<int>(i)).scalar_type();
    }
    return at::kFloat;
  }

  const HostCall& call_;
  const Signature& op_;
  const std::vector<Leaf>& leaves_;
  std::vector<const TslComponent*> first_;  // by leaf
};

int launch(void* call, const char* kernel, const unsigned* grid, const unsigned* block, const TslComponent* arguments,
           int count) {
  return guarded(call, [&](HostCall& self) {
    const Operator& op = self.kernel(kernel);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;  // an empty tensor's
    op.run(OpKind::Launch, LaunchArguments(self, op, arguments, count).stack(grid, block));
  });
}

int may_go_on(void* call) {
  if (std::atomic_ref<unsigned>(call_of(call).stop).load(std::memory_order_relaxed) == 0) return 0;
  return guarded(call,
                 [](HostCall& self) { throw_stopped(self.name + ": the call", self.watch->end(), self.options); });
}

int refuse_index(void* call, int kind, long long index, long long count) {
  return guarded(call, [&](HostCall& self) {
    TORCH_CHECK_INDEX(false, self.name, ": index ", index, " is outside ",
                      describe_local(static_cast<unsigned>(kind), static_cast<uint64_t>(count)));
  });
}

}  // namespace

int64_t host_components(const Leaf& leaf) { return leaf.is_view() ? 1 : component_count(leaf.element); }

void* give_tensor(at::Tensor tensor) { return tensor.unsafeReleaseTensorImpl(); }

at::Tensor take_tensor(void* tensor) {
  return at::Tensor(TensorPointer::reclaim(static_cast<c10::TensorImpl*>(tensor)));
}

const TslHostTable& host_table() {
  static const TslHostTable table = {retain, release, empty,  empty_like,  fill,      dims,        size,
                                     stride, data,    launch, synchronize, may_go_on, refuse_index};
  return table;
}

}  // namespace torch_slang
