#include "gradients/gathered_gradient.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>

#include "common/log.h"
#include "operators/element_types.h"
#include "operators/view_packing.h"
#include "prelude/abi.h"

namespace torch_slang {
namespace {

// As PyTorch's own operators: an error, or with warn_only a warning.
void alert(const std::string& op, const std::string& why) {
  const std::string message = c10::str(op,
                                       " does not have a deterministic implementation, but you set "
                                       "'torch.use_deterministic_algorithms(True)': ",
                                       why);
  if (at::globalContext().deterministicAlgorithmsWarnOnly()) {
    TORCH_WARN(message);
  } else {
    TORCH_CHECK(false, message);
  }
}

void check_replicas(const std::string& op, const Leaf& leaf, uint64_t threads) {
  if (threads <= static_cast<uint64_t>(leaf.view().copies)) return;  // each thread has a replica of its own
  alert(op, c10::str("the gradient of ", leaf.name, " has ", leaf.view().copies, " replicas for ", threads,
                     " threads. Declare it DiffTensorViewR<T, N> with N at least as many, or DiffTensorViewASR<T, N>, "
                     "which records and sorts the additions"));
}

void alert_of_atomics(const std::string& op, const Leaf& leaf) {
  alert(
      op,
      c10::str("the gradient of ", leaf.name,
               " is added up atomically, in an order that differs from run to run. Declare it "
               "DiffTensorViewASR<T, N>, which records and sorts the additions, or DiffTensorViewR<T, N> with at least "
               "as many replicas as threads"));
}

void check_overflow(const std::string& op, const Leaf& leaf, const GatheredGradient& gathered) {
  const int64_t count = gathered.overflow.item<int64_t>();
  if (count == 0) return;
  const std::string what =
      c10::str(op, ": ", count, " additions to the gradient of ", leaf.name, " found no place among the ",
               leaf.view().copies, " that DiffTensorViewASR<T, N> gives each thread");
  if (is_deterministic()) {
    alert(op, what + ", and were made atomically. Use a larger N");
  } else {
    log_warning(what, ", and were made atomically");
  }
}

}  // namespace

at::Tensor GatheredGradient::visible(const Leaf& leaf) const {
  switch (leaf.view().gathering().memory) {
    case GradientMemory::Own:
    case GradientMemory::Records: break;
    case GradientMemory::Replicas: return memory.select(0, 0);
  }
  return memory;
}

namespace {

GatheredGradient new_replicas(const Leaf& leaf, c10::IntArrayRef sizes, const at::TensorOptions& options) {
  c10::SmallVector<int64_t, 6> all{leaf.view().copies};
  all.append(sizes.begin(), sizes.end());
  GatheredGradient gathered;
  gathered.memory = at::zeros(all, options);
  return gathered;
}

GatheredGradient new_records(const std::string& op, const Leaf& leaf, int64_t components, c10::IntArrayRef sizes,
                             const at::TensorOptions& options, uint64_t threads, int64_t samples) {
  TORCH_CHECK(threads <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / leaf.view().copies / 64), op, ": ",
              leaf.name, " cannot record ", leaf.view().copies, " pairs for each of ", threads, " threads");
  const auto count = static_cast<int64_t>(threads);
  GatheredGradient gathered;
  gathered.memory = at::zeros(sizes, options);
  gathered.values = at::empty({samples, leaf.view().copies, count, components}, options);
  gathered.indices = at::empty({samples, leaf.view().copies, count}, options.dtype(at::kLong));
  gathered.overflow = at::zeros({1}, options.dtype(at::kLong));
  return gathered;
}

// Adds the pairs to the gradient's memory.
at::Tensor sum_of_records(const std::string& op, const Leaf& leaf, int64_t components, const GatheredGradient& gathered,
                          bool looks) {
  if (looks) check_overflow(op, leaf, gathered);
  if (gathered.memory.numel() == 0) return gathered.memory;
  const bool is_scalar = components == 1;
  at::Tensor flat = is_scalar ? gathered.memory.view(-1) : gathered.memory.view({-1, components});
  const at::Tensor& indices = gathered.indices;  // of a sample's own elements
  if (const int64_t samples = indices.size(0); samples > 1) {
    indices.add_(at::arange(samples, indices.options()).mul_(flat.size(0) / samples).view({samples, 1, 1}));
  }
  flat.index_add_(0, indices.view(-1), is_scalar ? gathered.values.view(-1) : gathered.values.flatten(0, 2));
  return gathered.memory;
}

}  // namespace

GatheredGradient new_gathered(const std::string& op, const Leaf& leaf, int64_t components, c10::IntArrayRef sizes,
                              const at::TensorOptions& options, uint64_t threads, int64_t samples) {
  switch (leaf.view().gathering().memory) {
    case GradientMemory::Own: break;
    case GradientMemory::Replicas: return new_replicas(leaf, sizes, options);
    case GradientMemory::Records: return new_records(op, leaf, components, sizes, options, threads, samples);
  }
  TORCH_INTERNAL_ASSERT(false, op, ": the gradient of ", leaf.name, " has its own memory");
}

at::Tensor reduced(const std::string& op, const Leaf& leaf, int64_t components, const GatheredGradient& gathered,
                   bool looks) {
  switch (leaf.view().gathering().memory) {
    case GradientMemory::Own: break;
    case GradientMemory::Replicas: return gathered.memory.sum(0);
    case GradientMemory::Records: return sum_of_records(op, leaf, components, gathered, looks);
  }
  return gathered.memory;
}

void set_gradient_slots(const Leaf& leaf, const GatheredGradient* gathered, const at::Tensor& owners,
                        c10::function_ref<void(int slot, uint64_t value, uint64_t bytes)> set) {
  const auto set_pointer = [&](int which, const at::Tensor& tensor) {
    const void* data = tensor.defined() ? tensor.const_data_ptr() : nullptr;
    const bool is_of_all = !tensor.defined() || which == kTslOverflow;
    set(*leaf.view().gradient_slots + which, reinterpret_cast<uintptr_t>(data), is_of_all ? 0 : tensor.nbytes());
  };
  set_pointer(kTslOwners, owners);
  const GatheredGradient none;
  const GatheredGradient& memory = gathered == nullptr ? none : *gathered;
  switch (leaf.view().gathering().memory) {
    case GradientMemory::Own: break;
    case GradientMemory::Replicas: {
      set(*leaf.view().gradient_slots + kTslReplicas,
          gathered == nullptr ? 1 : static_cast<uint64_t>(leaf.view().copies), 0);
      const int64_t bytes =
          gathered == nullptr ? 0 : memory.memory.numel() / leaf.view().copies * memory.memory.element_size();
      set(*leaf.view().gradient_slots + kTslReplicaStride, static_cast<uint64_t>(bytes), 0);
      break;
    }
    case GradientMemory::Records:
      set_pointer(kTslValues, memory.values);
      set_pointer(kTslIndices, memory.indices);
      set_pointer(kTslOverflow, memory.overflow);
      break;
  }
}

at::Tensor new_owners(int64_t elements, c10::Device device) {
  return at::zeros({elements, 4}, at::TensorOptions().dtype(at::kInt).device(device));
}

bool is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

void check_deterministic(const std::string& op, const Leaf& leaf, bool one_place, uint64_t threads) {
  if (!is_deterministic() || threads <= 1) return;
  switch (one_place ? GradientMemory::Own : leaf.view().gathering().memory) {
    case GradientMemory::Own: return alert_of_atomics(op, leaf);
    case GradientMemory::Replicas: return check_replicas(op, leaf, threads);
    case GradientMemory::Records: return;  // what finds no place is counted
  }
}

at::TensorOptions summing_options(ElementType type, c10::Device device) {
  return at::TensorOptions().dtype(scalar_type(summing_type(type))).device(device);
}

at::Tensor summed(const at::Tensor& parts, int64_t dimension) {
  return parts.size(dimension) == 1 ? parts.squeeze(dimension) : parts.sum(dimension);
}

at::Tensor like_argument(const at::Tensor& gradient, const at::Tensor& argument) {
  return gradient.to(argument.device(), argument.scalar_type());
}

}  // namespace torch_slang
