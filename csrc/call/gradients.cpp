#include "call/gradients.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>

#include "arguments/gradient_sums.h"
#include "arguments/new_tensor.h"
#include "backend/launch_shape.h"
#include "call/sample_memory.h"
#include "common/log.h"
#include "kernel/view_packing.h"
#include "prelude/abi.h"

namespace torch_slang {

namespace {

// More memory than this for the parts of one value's gradient, and neighbours share it.
constexpr uint64_t kMostBytesOfParts = uint64_t{64} << 20;

// Elements of an output's gradient that is not contiguous: with fewer a copy is cheaper than a kernel of its own.
constexpr int64_t kWorthAKernel = int64_t{1} << 18;

uint64_t threads_in(const LaunchShape& shape) {
  return threads_in_block(shape) * shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
}

// Those that have a part each in the gradient of a value: Note [value gradients] in abi.h.
uint64_t adders_in(const LaunchShape& shape, c10::Device device) {
  constexpr uint64_t kWave = 32;
  const uint64_t blocks = shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  return device.is_cpu() ? blocks : blocks * ((threads_in_block(shape) + kWave - 1) / kWave);
}

bool is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

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

}  // namespace

Gradients::Gradients(const KernelSignature& op, OpKind kind, const Arguments& arguments, Launcher& launcher)
    : op_(op), kind_(kind), arguments_(arguments), launcher_(launcher) {}

// Decided once the kernel is known, and contiguous: views of it suit every kernel.
bool Gradients::in_private_memory(const Item& item) const {
  const Accumulation how = leaf_of(item).accumulation;
  return leaf_of(item).kind == LeafKind::View && (how == Accumulation::Replicated || how == Accumulation::Recorded);
}

c10::IntArrayRef Gradients::sizes_of(const Item& item) const {
  return item.target.defined() ? item.target.sizes() : arguments_.tensors[item.leaf].sizes();
}

at::TensorOptions Gradients::options_to_add_in(const Item& item) const {
  return summing_options(arguments_.type_of(leaf_of(item)), arguments_.device);
}

void Gradients::want(int leaf, const at::Tensor& target) {
  Item item;
  item.leaf = leaf;
  item.target = target;
  // What depends on the kernel is made once that is known.
  if (target.defined() && !is_value(item)) {
    if (in_private_memory(item)) {
      launcher_.note_written(target);
    } else {
      item.memory = target;
      launcher_.set_gradient(leaf, item.memory);
    }
  }
  items_.push_back(std::move(item));
}

// A copy that goes back whole would undo what was added through another argument that shares the memory.
void Gradients::check_alone(const Item& item) const {
  if (!item.target.defined() || item.memory.is_same(item.target)) return;
  for (size_t i = 0; i < arguments_.gradients.size(); ++i) {
    const at::Tensor& other = arguments_.gradients[i];
    if (!other.defined() || static_cast<int>(i) == item.leaf) continue;
    TORCH_CHECK(!may_overlap(item.target, other), op_.qualified(kind_), ": the gradients of ", leaf_of(item).name,
                " and ", op_.function.leaves[i].name,
                " share memory, but one of them must be copied for the kernel, since its "
                "dtype, strides or device do not suit it: give each its own");
  }
}

void Gradients::give(int leaf, const at::Tensor& gradient) {
  Item item;
  item.leaf = leaf;
  item.is_given = true;
  item.target = gradient;
  // A kernel that reads it with its strides is another kernel: not to be compiled in vain, or for a small copy.
  const bool is_own = launcher_.is_known_own(leaf) && gradient.numel() >= kWorthAKernel;
  if (!in_private_memory(item) || is_own) {
    const bool as_it_is = is_own || are_samples_contiguous(gradient, arguments_.samples.size());
    item.memory = as_it_is ? gradient : gradient.clone(at::MemoryFormat::Contiguous);
    launcher_.set_gradient(leaf, item.memory);
  }
  items_.push_back(std::move(item));
}

bool Gradients::take_copies(const LoadedKernel& loaded) {
  bool any = false;
  for (Item& item : items_) {
    if (!item.is_given || loaded.own[item.leaf] || !item.memory.is_same(item.target)) continue;
    if (in_private_memory(item)) {
      item.memory = at::Tensor();
      continue;  // what it needs is made later, contiguous
    }
    const bool was_strided = !are_samples_contiguous(item.memory, arguments_.samples.size());
    item.memory = item.target.clone(at::MemoryFormat::Contiguous);
    launcher_.set_gradient(item.leaf, item.memory);
    any |= was_strided;
  }
  return any;
}

void Gradients::prepare(const LoadedKernel& loaded, const LaunchShape& shape) {
  const uint64_t threads = threads_in(shape);
  for (Item& item : items_) {
    item.is_own = loaded.own[item.leaf];
    item.is_taken = item.is_given || loaded.gradients[item.leaf].taken;
    if (is_deterministic()) check_deterministic(item, loaded, threads);
  }
  for (Item& item : items_) {
    if (is_value(item)) {
      make_parts(item, loaded.kernel->on_device(shape));
      continue;
    }
    if (is_gathered(item)) {
      make_memory(item, threads);
      const bool has_replicas = leaf_of(item).accumulation == Accumulation::Replicated && !item.is_taken;
      launcher_.set_gradient(item.leaf, has_replicas ? item.memory.select(0, 0) : item.memory);
    } else if (!item.memory.defined()) {
      item.memory = item.is_given ? given_in_memory(item, loaded) : new_memory(item);
      launcher_.set_gradient(item.leaf, item.memory);
    }
    if (op_.options.checks(arguments_.device) == Checks::All && loaded.gradients[item.leaf].promised) {
      const int64_t elements = c10::multiply_integers(sizes_of(item)) / component_count(leaf_of(item).element);
      item.owners = at::zeros({elements, 4}, at::TensorOptions().dtype(at::kInt).device(arguments_.device));
    }
    set_slots(item);
  }
}

// A kernel with words was chosen for memory that begins at one.
at::Tensor Gradients::given_in_memory(const Item& item, const LoadedKernel& loaded) const {
  if (loaded.threads.lanes == 1 || begins_at_word(item.target)) return item.target.contiguous();
  return item.target.clone(at::MemoryFormat::Contiguous);
}

at::Tensor Gradients::new_memory(const Item& item) const {
  const auto options = arguments_.options(leaf_of(item));
  return item.is_own ? new_empty(sizes_of(item), options) : new_zeros(sizes_of(item), options);
}

void Gradients::check_deterministic(const Item& item, const LoadedKernel& loaded, uint64_t threads) const {
  const Leaf& leaf = leaf_of(item);
  if (!loaded.gradients[item.leaf].added || threads <= 1) return;
  if (leaf.accumulation == Accumulation::Recorded && !item.is_taken) return;  // what finds no place is counted
  if (leaf.accumulation == Accumulation::Replicated && !item.is_taken) {
    if (threads <= static_cast<uint64_t>(leaf.copies)) return;  // each thread has a replica of its own
    return alert(op_.qualified(kind_),
                 c10::str("the gradient of ", leaf.name, " has ", leaf.copies, " replicas for ", threads,
                          " threads. Declare it DiffTensorViewR<T, N> with N at least as "
                          "many, or DiffTensorViewASR<T, N>, which records and sorts"));
  }
  alert(
      op_.qualified(kind_),
      c10::str("the gradient of ", leaf.name,
               " is added up atomically, in whatever order threads come. Declare it "
               "DiffTensorViewASR<T, N>, which records and sorts what is added, or DiffTensorViewR<T, N> with at least "
               "as many replicas as threads"));
}

void Gradients::make_memory(Item& item, uint64_t threads) {
  const auto options = options_to_add_in(item);
  if (item.is_taken) {
    const at::Tensor start = item.target.defined() ? item.target : at::zeros(sizes_of(item), options);
    item.memory = start.to(options, /*non_blocking=*/false, /*copy=*/item.is_given).contiguous();
    if (!item.is_given) check_alone(item);
    return;
  }
  if (leaf_of(item).accumulation == Accumulation::Recorded) {
    item.memory = at::zeros(sizes_of(item), options);
    make_records(item, threads);
    return;
  }
  c10::SmallVector<int64_t, 6> sizes{leaf_of(item).copies};
  sizes.append(sizes_of(item).begin(), sizes_of(item).end());
  item.memory = at::zeros(sizes, options);
}

void Gradients::make_records(Item& item, uint64_t threads) {
  const Leaf& leaf = leaf_of(item);
  TORCH_CHECK(threads <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / leaf.copies / 64),
              op_.qualified(kind_), ": ", leaf.name, " cannot record ", leaf.copies, " pairs for each of ", threads,
              " threads");
  const auto count = static_cast<int64_t>(threads);
  const auto options = options_to_add_in(item);
  const int64_t samples = sample_count(arguments_);
  item.values = at::empty({samples, leaf.copies, count, component_count(leaf.element)}, options);
  item.indices = at::empty({samples, leaf.copies, count}, options.dtype(at::kLong));
  item.overflow = at::zeros({1}, options.dtype(at::kLong));
}

void Gradients::make_parts(Item& item, const LaunchShape& shape) {
  const bool on_host = arguments_.device.is_cpu();
  const auto options = on_host ? at::TensorOptions().dtype(at::kDouble) : options_to_add_in(item);
  const uint64_t adders = adders_in(shape, arguments_.device);
  const int64_t components = component_count(leaf_of(item).element), samples = sample_count(arguments_);
  const uint64_t bytes = samples * components * options.dtype().itemsize();
  uint64_t places = adders;
  uint64_t sharing = 0;
  while (!is_deterministic() && sharing < kTslMostSharing && places * bytes > kMostBytesOfParts) {
    ++sharing;
    places = ((adders - 1) >> sharing) + 1;
  }
  const auto make = [&](c10::IntArrayRef sizes) {
    return on_host || sharing > 0 ? at::zeros(sizes, options) : at::empty(sizes, options);
  };
  const auto count = static_cast<int64_t>(places);
  // Each sample's begin where the low bits of an address are zero, as those of new memory are.
  constexpr int64_t kApart = kTslMostSharing + 1;
  const int64_t each = components * count, aligned = (each + kApart - 1) / kApart * kApart;
  if (arguments_.has_samples()) {
    item.parts = make({samples, aligned}).narrow(1, 0, each).view({samples, components, count});
  } else {
    item.parts = make({components, count});
  }
  const auto address = reinterpret_cast<uintptr_t>(item.parts.mutable_data_ptr());
  TORCH_INTERNAL_ASSERT((address & kTslMostSharing) == 0, "new memory is aligned");
  launcher_.set_slot(leaf_of(item).gradient_slot, address | sharing, aligned * item.parts.element_size());
}

void Gradients::set_slots(const Item& item) {
  const Leaf& leaf = leaf_of(item);
  const auto set_pointer = [&](int which, const at::Tensor& tensor) {
    const void* data = tensor.defined() ? tensor.const_data_ptr() : nullptr;
    const bool is_each = tensor.defined() && which != kTslOverflow;  // which samples have together
    const int64_t bytes = is_each ? static_cast<int64_t>(tensor.nbytes()) / sample_count(arguments_) : 0;
    launcher_.set_slot(leaf.gradient_slots + which, reinterpret_cast<uintptr_t>(data), bytes);
  };
  set_pointer(kTslOwners, item.owners);
  if (leaf.accumulation == Accumulation::Replicated) {
    const bool one = item.is_taken || item.is_own;
    launcher_.set_slot(leaf.gradient_slots + kTslReplicas, one ? 1 : static_cast<uint64_t>(leaf.copies));
    const int64_t bytes = one ? 0 : item.memory.numel() / leaf.copies * item.memory.element_size();
    launcher_.set_slot(leaf.gradient_slots + kTslReplicaStride, static_cast<uint64_t>(bytes));
  } else if (leaf.accumulation == Accumulation::Recorded) {
    set_pointer(kTslValues, item.values);
    set_pointer(kTslIndices, item.indices);
    set_pointer(kTslOverflow, item.overflow);
  }
}

// Looked at only where somebody asked to know: the GPU must be waited for.
void Gradients::check_overflow(const Item& item) const {
  const bool all_checks = op_.options.checks(arguments_.device) == Checks::All;
  if ((!all_checks && !is_deterministic()) || launcher_.is_captured()) return;
  const int64_t count = item.overflow.item<int64_t>();
  if (count == 0) return;
  const Leaf& leaf = leaf_of(item);
  const std::string what =
      c10::str(op_.qualified(kind_), ": ", count, " additions to the gradient of ", leaf.name,
               " found no place among the ", leaf.copies, " that DiffTensorViewASR<T, N> gives each thread");
  if (is_deterministic()) {
    alert(op_.qualified(kind_), what + ", and were made atomically. Use a larger N");
  } else {
    log_warning(what, ", and were made atomically");
  }
}

at::Tensor Gradients::reduced(const Item& item) const {
  const Leaf& leaf = leaf_of(item);
  if (leaf.accumulation == Accumulation::Replicated) return item.memory.sum(0);
  check_overflow(item);
  if (item.memory.numel() == 0) return item.memory;
  const bool is_scalar = component_count(leaf.element) == 1;
  at::Tensor flat = is_scalar ? item.memory.view(-1) : item.memory.view({-1, component_count(leaf.element)});
  const at::Tensor& indices = item.indices;
  if (arguments_.has_samples()) {
    const int64_t samples = sample_count(arguments_);
    indices.add_(at::arange(samples, indices.options()).mul_(flat.size(0) / samples).view({samples, 1, 1}));
  }
  flat.index_add_(0, indices.view(-1), is_scalar ? item.values.view(-1) : item.values.flatten(0, 2));
  return item.memory;
}

at::Tensor Gradients::sum_of_parts(const Item& item) const {
  const at::Tensor sum = summed(item.parts, item.parts.dim() - 1);
  if (!arguments_.has_samples()) return sum.view(leaf_of(item).element.shape);
  auto sizes = sample_sizes(arguments_);
  sizes.append(leaf_of(item).element.shape.begin(), leaf_of(item).element.shape.end());
  return sum.reshape(sizes).contiguous();  // there may be gaps between samples
}

void Gradients::finish() {
  for (Item& item : items_) {
    if (item.is_given) continue;
    const bool reduces = is_value(item) || (is_gathered(item) && !item.is_taken);
    if (reduces) item.memory = is_value(item) ? sum_of_parts(item) : reduced(item);
    if (!item.target.defined()) continue;
    if (reduces) {
      item.target.add_(item.memory.to(item.target.device()));
    } else if (!item.memory.is_same(item.target)) {
      item.target.copy_(item.memory);
    }
  }
}

at::Tensor Gradients::take_result(int leaf) {
  const auto item = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.leaf == leaf; });
  if (item == items_.end()) return {};
  return like_argument(item->memory, arguments_.tensors[leaf]);
}

}  // namespace torch_slang
