#include "audit/problem.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "audit/cut.h"
#include "backend/backend.h"

namespace torch_slang::audit {
namespace {

constexpr int64_t kRows = 128, kRowsBesideTensors = int64_t{1} << 16;
constexpr int64_t kMostElements = int64_t{1} << 22;  // of all copies
constexpr int64_t kCutElements = int64_t{1} << 20;  // of the tensors of a larger call: Note [cut problems] in cut.h

// The values that a call was given, by leaf of f. If `called` is the operator of tangents, Leaf::origin is the leaf of f.
std::vector<c10::IValue> values_by_leaf(const Operator& f, const Operator& called, Operator::Stack arguments) {
  const Signature& signature = called.signature();
  const bool is_of_tangents = !signature.function.tangents_of.empty();
  std::vector<c10::IValue> values(f.signature().function.leaves.size());
  const auto& meaning = signature.of(OpKind::Backward)->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (meaning[i].role != OpArgument::Role::Leaf) continue;
    const Leaf& leaf = signature.function.leaves[meaning[i].leaf];
    if (is_of_tangents && leaf.is_tangent) continue;
    values[is_of_tangents ? leaf.origin : meaning[i].leaf] = arguments[i];
  }
  return values;
}

// What a recorded call keeps of an input whose values its backward does not look at: one element of memory, for all.
bool is_stand_in(const at::Tensor& tensor) {
  return tensor.numel() > 1 && static_cast<int64_t>(tensor.storage().nbytes()) <= tensor.element_size() &&
         std::all_of(tensor.strides().begin(), tensor.strides().end(), [](int64_t s) { return s == 0; });
}

// Numbers for those that nobody knows: a derivative that does not depend on them is asked for all the same.
at::Tensor numbers_for(const at::Tensor& tensor) {
  const auto options = tensor.options();
  if (!c10::isFloatingType(tensor.scalar_type())) return at::zeros(tensor.sizes(), options);
  return at::rand(tensor.sizes(), options.dtype(at::kFloat)).add_(0.5).to(tensor.scalar_type());
}

at::Tensor known_numbers(const at::Tensor& tensor) { return is_stand_in(tensor) ? numbers_for(tensor) : tensor; }

// Some of a plain function's elements, each a row.
class Rows {
 public:
  Rows(const std::vector<Leaf>& leaves, const std::vector<c10::IValue>& values, int64_t most)
      : leaves_(leaves), most_(most) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].isTensor() || leaves[i].is_whole()) continue;
      outer_ = at::infer_size_dimvector(outer_, outer_of(i, values[i].toTensor()));
    }
    for (const int64_t n : outer_) count_ *= n;
  }

  int64_t count() const { return std::min(count_, most_); }
  bool is_empty() const { return count_ == 0; }

  void take_from(std::vector<c10::IValue>& values) const {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].isTensor() && !leaves_[i].is_whole()) values[i] = of(i, values[i].toTensor());
    }
  }

 private:
  // Of the tensor of a leaf: [rows, element].
  at::Tensor of(size_t leaf, const at::Tensor& tensor) const {
    const size_t rank = leaves_[leaf].element.shape.size();
    std::vector<int64_t> whole(outer_.begin(), outer_.end());
    whole.insert(whole.end(), tensor.sizes().end() - static_cast<std::ptrdiff_t>(rank), tensor.sizes().end());
    const at::Tensor all = known_numbers(tensor).expand(whole);
    if (outer_.empty()) return all.unsqueeze(0).clone(at::MemoryFormat::Contiguous);
    return all.index(places(tensor.device()));
  }

  at::DimVector outer_of(size_t leaf, const at::Tensor& tensor) const {
    const auto rank = static_cast<std::ptrdiff_t>(leaves_[leaf].element.shape.size());
    return {tensor.sizes().begin(), tensor.sizes().end() - rank};
  }

  // Spread over all elements. Made on the device: nobody waits.
  c10::List<std::optional<at::Tensor>> places(c10::Device device) const {
    constexpr int64_t kStride = 1000003;  // a prime: rows and columns are met in turn
    at::Tensor rest = at::arange(count(), at::TensorOptions(device).dtype(at::kLong)).mul_(kStride).remainder_(count_);
    std::vector<at::Tensor> by_dimension(outer_.size());
    for (size_t i = outer_.size(); i-- > 0;) {
      by_dimension[i] = rest.remainder(outer_[i]);
      rest = rest.floor_divide(outer_[i]);
    }
    c10::List<std::optional<at::Tensor>> places;
    for (at::Tensor& one : by_dimension) places.push_back(std::move(one));
    return places;
  }

  const std::vector<Leaf>& leaves_;
  const int64_t most_;
  at::DimVector outer_;
  int64_t count_ = 1;
};

int64_t element_count(const std::vector<c10::IValue>& values) {
  int64_t count = 0;
  for (const c10::IValue& value : values) count += value.isTensor() ? value.toTensor().numel() : 0;
  return count;
}

// Of a GPU's tensors.
std::optional<c10::Device> device_of(const std::vector<c10::IValue>& values) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && !value.toTensor().is_cpu()) return value.toTensor().device();
  }
  return std::nullopt;
}

bool is_captured(const std::optional<c10::Device>& device) {
  return device && backend_for(device->type()).is_capturing(*device);
}

// When the device has made what the current stream was given.
std::shared_ptr<const c10::Event> event_now(c10::Device device) {
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

// A part of the call's numbers.
std::optional<std::vector<c10::IValue>> part_of(const Signature& signature, std::vector<c10::IValue> values) {
  if (sees_tensors(signature.function)) {
    Rows(signature.function.leaves, values, kRowsBesideTensors).take_from(values);
  }
  return cut(signature, values, kCutElements);
}

// What a GPU is asked for here goes to the current stream: nobody waits.
std::optional<Problem> copies_for(const Signature& signature, std::vector<c10::IValue> values, bool takes_parts) {
  Problem problem;
  if (!signature.function.is_kernel() && !sees_tensors(signature.function)) {
    const Rows rows(signature.function.leaves, values, kRows);
    if (rows.is_empty()) return std::nullopt;
    problem.rows = rows.count();
    rows.take_from(values);
    problem.values = std::move(values);
    return problem;
  }
  const int64_t count = element_count(values);
  if (count == 0) return std::nullopt;
  if (count > kMostElements) {
    if (!takes_parts) return std::nullopt;
    problem.is_part = true;
    auto part = part_of(signature, std::move(values));
    if (!part) {
      problem.refusal = c10::str("its tensors have ", count, " elements, more than the ", kMostElements,
                                 " that are copied for an audit, and their shapes do not say how to take a part");
      return problem;
    }
    values = *std::move(part);
  }
  for (c10::IValue& value : values) {
    if (value.isTensor()) value = known_numbers(value.toTensor()).clone(at::MemoryFormat::Contiguous);
  }
  problem.values = std::move(values);
  return problem;
}

}  // namespace

std::optional<Problem> keep_problem(const Operator& f, const Operator& called, Operator::Stack arguments,
                                    bool takes_parts) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<c10::IValue> values = values_by_leaf(f, called, arguments);
  const std::optional<c10::Device> device = device_of(values);
  if (is_captured(device)) return std::nullopt;  // copies would be parts of the graph
  try {
    std::optional<Problem> problem = copies_for(f.signature(), std::move(values), takes_parts);
    if (problem && device) problem->made = event_now(*device);
    return problem;
  } catch (const c10::Error& error) {  // there is no memory, say: the call goes on
    Problem problem;
    problem.refusal = std::string("its arguments could not be copied: ") + error.what_without_backtrace();
    return problem;
  }
}

at::Tensor Problem::on_cpu(const at::Tensor& tensor) const {
  if (tensor.is_cpu()) return tensor;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  backend_for(tensor.device().type())
      .copy_to_cpu(tensor.device(), *made, copy.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
  return copy;
}

Problem Problem::on_cpu(bool in_double) const {
  Problem copy = *this;
  copy.made.reset();
  for (c10::IValue& value : copy.values) {
    if (!value.isTensor()) continue;
    const at::Tensor tensor = on_cpu(value.toTensor());
    value = in_double && c10::isFloatingType(tensor.scalar_type()) ? tensor.to(at::kDouble) : tensor;
  }
  return copy;
}

}  // namespace torch_slang::audit
