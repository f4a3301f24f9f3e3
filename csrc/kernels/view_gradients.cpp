#include "kernels/view_gradients.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "backend/launch_shape.h"
#include "gradients/gathered_gradient.h"
#include "kernels/sample_memory.h"
#include "operators/new_tensor.h"
#include "operators/view_packing.h"

namespace torch_slang {

namespace {

// Elements of an output's gradient that is not contiguous: with fewer a copy is cheaper than a kernel of its own.
constexpr int64_t kWorthAKernel = int64_t{1} << 18;

uint64_t threads_in(const LaunchShape& shape) {
  return threads_in_block(shape) * shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
}

}  // namespace

Gradients::Gradients(LaunchMemory& memory)
    : op_(memory.call().op),
      kind_(memory.call().kind),
      arguments_(memory.call().arguments),
      memory_(memory),
      values_(arguments_) {}

// Decided once the kernel is known, and contiguous: views of it suit every kernel.
bool Gradients::in_private_memory(const Item& item) const {
  return leaf_of(item).is_view() && has_copies(leaf_of(item).view().gathering().memory);
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
      memory_.note_written(target);
    } else {
      item.memory = target;
      memory_.set_gradient(leaf, item.memory);
    }
  }
  items_.push_back(std::move(item));
}

// A copy that goes back whole would undo additions through another argument that shares the memory.
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
  const bool is_own = memory_.is_known_own(leaf) && gradient.numel() >= kWorthAKernel;
  if (!in_private_memory(item) || is_own) {
    const bool as_it_is = is_own || are_samples_contiguous(gradient, arguments_.samples.size());
    item.memory = as_it_is ? gradient : gradient.clone(at::MemoryFormat::Contiguous);
    memory_.set_gradient(leaf, item.memory);
  }
  items_.push_back(std::move(item));
}

bool Gradients::copy_given(const LoadedKernel& loaded) {
  bool any = false;
  for (Item& item : items_) {
    if (!item.is_given || loaded.own[item.leaf] || !item.memory.is_same(item.target)) continue;
    if (in_private_memory(item)) {
      item.memory = at::Tensor();
      continue;  // what it needs is made later, contiguous
    }
    const bool was_strided = !are_samples_contiguous(item.memory, arguments_.samples.size());
    item.memory = item.target.clone(at::MemoryFormat::Contiguous);
    memory_.set_gradient(item.leaf, item.memory);
    any |= was_strided;
  }
  return any;
}

void Gradients::prepare(const LoadedKernel& loaded, const LaunchShape& shape) {
  const uint64_t threads = threads_in(shape);
  for (Item& item : items_) {
    item.is_own = loaded.own[item.leaf];
    item.is_consumed = item.is_given || loaded.gradients[item.leaf].consumed;
    if (loaded.gradients[item.leaf].added)
      check_deterministic(op_.qualified(kind_), leaf_of(item), item.is_consumed, threads);
  }
  std::vector<const Leaf*> values;
  for (Item& item : items_) {
    if (is_value(item)) {
      values.push_back(&leaf_of(item));
      continue;
    }
    if (has_plain(item)) {
      make_plain_memory(item);
    } else if (has_gathered(item)) {
      item.gathered = new_gathered(op_.qualified(kind_), leaf_of(item), component_count(leaf_of(item).element),
                                   sizes_of(item), options_to_add_in(item), threads, sample_count(arguments_));
      memory_.set_gradient(item.leaf, item.gathered.visible(leaf_of(item)));
    } else if (!item.memory.defined()) {
      item.memory = item.is_given ? given_in_memory(item, loaded) : new_memory(item);
      memory_.set_gradient(item.leaf, item.memory);
    }
    if (op_.options.checks(arguments_.device) == Checks::All && loaded.gradients[item.leaf].promised) {
      const int64_t elements = c10::multiply_integers(sizes_of(item)) / component_count(leaf_of(item).element);
      item.owners = new_owners(elements, arguments_.device);
    }
    set_gradient_slots(leaf_of(item), has_gathered(item) ? &item.gathered : nullptr, item.owners,
                       [&](int slot, uint64_t value, uint64_t bytes) {
                         memory_.set_slot(slot, value, static_cast<int64_t>(bytes) / sample_count(arguments_));
                       });
  }
  values_.prepare(values, loaded.kernel->on_device(shape), memory_);
}

// A kernel with vectors was chosen for memory that begins at one.
at::Tensor Gradients::given_in_memory(const Item& item, const LoadedKernel& loaded) const {
  if (loaded.threads.lanes == 1 || begins_at_vector(item.target)) return item.target.contiguous();
  return item.target.clone(at::MemoryFormat::Contiguous);
}

at::Tensor Gradients::new_memory(const Item& item) const {
  const auto options = arguments_.options(leaf_of(item));
  return item.is_own ? new_empty(sizes_of(item), options) : new_zeros(sizes_of(item), options);
}

// Plain memory of the type to add in.
void Gradients::make_plain_memory(Item& item) {
  const auto options = options_to_add_in(item);
  const at::Tensor start = item.target.defined() ? item.target : at::zeros(sizes_of(item), options);
  item.memory = start.to(options, /*non_blocking=*/false, /*copy=*/item.is_given).contiguous();
  if (!item.is_given) check_alone(item);
  memory_.set_gradient(item.leaf, item.memory);
}

// Records that found no place are looked at only where somebody asked to know: the GPU must be waited for.
at::Tensor Gradients::sum_of_gathered(const Item& item) const {
  const bool asks = is_deterministic() || op_.options.checks(arguments_.device) == Checks::All;
  return reduced(op_.qualified(kind_), leaf_of(item), component_count(leaf_of(item).element), item.gathered,
                 asks && !memory_.is_captured());
}

void Gradients::finish() {
  const std::vector<at::Tensor> sums = values_.sums();
  auto sum = sums.begin();
  for (Item& item : items_) {
    if (item.is_given) continue;
    const bool reduces = is_value(item) || has_gathered(item);
    if (reduces) item.memory = is_value(item) ? *sum++ : sum_of_gathered(item);
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
