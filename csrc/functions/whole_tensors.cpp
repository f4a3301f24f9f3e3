#include "functions/whole_tensors.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "functions/variant.h"
#include "gradients/gathered_gradient.h"
#include "operators/new_tensor.h"
#include "operators/view_packing.h"

namespace torch_slang {
namespace {

ViewCut cut_of(const Leaf& leaf) { return {.element = leaf.element.shape.size()}; }

}  // namespace

void WholeTensors::see(int index) {
  const Leaf& leaf = leaf_of(index);
  const at::Tensor& given = arguments_.tensors[index];
  seen_.push_back(index);
  if (leaf.is_written() && kind_ == OpKind::Backward) return set_absent(index);
  if (leaf.is_written()) check_own_memory(index, given);
  at::Tensor tensor = given.is_neg() ? given.resolve_neg() : given;
  auto visible = make_view(op_.qualified(kind_), leaf, cut_of(leaf), tensor);
  if (!visible) {
    tensor = copied(index, tensor);
    visible = make_view(op_.qualified(kind_), leaf, cut_of(leaf), tensor);
    TORCH_INTERNAL_ASSERT(visible, "a contiguous copy can be viewed");
  }
  kept_.push_back(tensor);
  block_.set_view(leaf.place().primal_view, visible->view);
}

void WholeTensors::give(int index, const at::Tensor& gradient) {
  const at::Tensor& tensor = arguments_.tensors[index];
  TORCH_CHECK(gradient.sizes() == tensor.sizes(), op_.qualified(kind_), ": expected grad_", leaf_of(index).name,
              " to have the tensor's shape ", tensor.sizes(), ", but got ", gradient.sizes());
  wanted_.push_back({index, gradient.clone(at::MemoryFormat::Contiguous), {}});
}

void WholeTensors::check_own_memory(int index, const at::Tensor& tensor) const {
  TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, op_.qualified(kind_), ": expected ",
              leaf_of(index).name,
              ", which the function stores to, to have memory of its own for each element, but it is "
              "expanded, with strides ",
              tensor.strides());
}

// A copy that goes back whole would undo stores through another argument.
at::Tensor WholeTensors::copied(int index, const at::Tensor& given) {
  const at::Tensor copy = given.clone(at::MemoryFormat::Contiguous);
  if (!leaf_of(index).is_written()) return copy;
  for (size_t i = 0; i < arguments_.tensors.size(); ++i) {
    const at::Tensor& other = arguments_.tensors[i];
    if (!other.defined() || static_cast<int>(i) == index || !leaf_of(static_cast<int>(i)).is_whole()) continue;
    TORCH_CHECK(!may_overlap(given, other), op_.qualified(kind_), ": ", leaf_of(index).name, " and ",
                leaf_of(static_cast<int>(i)).name,
                " share memory, but the first must be copied for the kernel, since its strides or its address do not "
                "suit it: give each its own");
  }
  copied_.emplace_back(given, copy);
  return copy;
}

// The function may ask its sizes.
void WholeTensors::set_absent(int index) {
  const Leaf& leaf = leaf_of(index);
  const at::Tensor& tensor = arguments_.tensors[index];
  TslView view = {};
  view.dimensionCount = static_cast<unsigned>(tensor.dim() - leaf.element.shape.size());
  for (unsigned d = 0; d < view.dimensionCount; ++d) view.sizes[d] = static_cast<unsigned>(tensor.size(d));
  block_.set_view(leaf.place().primal_view, view);
}

bool WholeTensors::are_independent() const {
  if (kind_ == OpKind::Backward) return true;  // gradients have memory of their own
  for (const int index : seen_) {
    if (!leaf_of(index).is_written()) continue;
    const at::Tensor& tensor = arguments_.tensors[index];
    if (at::has_internal_overlap(tensor) != at::MemOverlap::No) return false;
    for (size_t i = 0; i < arguments_.tensors.size(); ++i) {
      const at::Tensor& other = arguments_.tensors[i];
      if (static_cast<int>(i) != index && other.defined() && may_overlap(tensor, other)) return false;
    }
  }
  return true;
}

std::vector<int64_t> WholeTensors::sizes_of(int leaf) const {
  const auto all = arguments_.tensors[leaf].sizes();
  return all.slice(0, all.size() - leaf_of(leaf).element.shape.size()).vec();
}

// Sums are worth it where many elements add to each of few. Debug mode notes in memory who touches which element, so all must
// go there.
void WholeTensors::note(const std::vector<GeneratedPlaces>& places, int64_t elements, ElementwiseVariant& variant) {
  constexpr int64_t kMany = 8;
  const bool is_debug = op_.options.checks(arguments_.device) == Checks::All;
  for (const Wanted& one : wanted_) {
    const Leaf& leaf = leaf_of(one.leaf);
    const bool may_wait = !is_debug && !leaf.is_written() && leaf.view().gathering().is_ours;
    const int64_t numbers = arguments_.tensors[one.leaf].numel();
    const bool is_few =
        may_wait && may_be_few(leaf) && numbers > 0 && numbers <= kFewNumbers && elements >= kMany * numbers;
    variant.leaves[one.leaf].gradient =
        is_few ? ElementwiseVariant::Gradient::Few : ElementwiseVariant::Gradient::Gathered;
    has_few_ = has_few_ || is_few;
    if (!may_wait) continue;
    auto orders = owned_dim_orders(places, elements, sizes_of(one.leaf), arguments_.components(leaf));
    if (!orders.empty()) variant.owned.emplace_back(one.leaf, std::move(orders));
  }
}

// Elements are threads in whole blocks: Note [map loops] in source/kernel_source.h.
void WholeTensors::prepare(const LoadedKernel& loaded, const std::vector<GeneratedPlaces>& places, int64_t elements) {
  const uint64_t threads = (static_cast<uint64_t>(elements) + kMapThreads - 1) / kMapThreads * kMapThreads;
  for (const Wanted& one : wanted_) {
    const GradientUse& use = loaded.gradients[one.leaf];
    if (use.added)
      check_deterministic(op_.qualified(kind_), leaf_of(one.leaf), use.consumed, elements > 1 ? threads : 1);
  }
  for (Wanted& one : wanted_) {
    if (const auto& dims = loaded.own_dims[one.leaf]) {
      one.is_own = true;
      one.is_covered = covers(places, elements, *dims, sizes_of(one.leaf));
    }
    make_memory(one, loaded.gradients[one.leaf], threads);
    if (!one.gathered || !one.gathered->indices.defined()) continue;
    one.gathered->indices.slice(2, elements).zero_();  // of threads behind the last element, which do not run
    one.gathered->values.slice(2, elements).zero_();
  }
}

void WholeTensors::make_memory(Wanted& wanted, const GradientUse& use, uint64_t threads) {
  const Leaf& leaf = leaf_of(wanted.leaf);
  const at::Tensor& tensor = arguments_.tensors[wanted.leaf];
  const int64_t components = arguments_.components(leaf);
  const auto wide = summing_options(arguments_.type_of(leaf), arguments_.device);
  at::Tensor visible = wanted.memory;
  if (visible.defined()) {
    // given
  } else if (wanted.is_own) {
    const auto options = arguments_.options(leaf);
    visible = wanted.memory =
        wanted.is_covered ? new_empty(tensor.sizes(), options) : new_zeros(tensor.sizes(), options);
  } else if (has_copies(leaf.view().gathering().memory) && !use.consumed) {
    wanted.gathered = new_gathered(op_.qualified(kind_), leaf, components, tensor.sizes(), wide, threads);
    visible = wanted.gathered->visible(leaf);
  } else {
    visible = wanted.memory = has_copies(leaf.view().gathering().memory)
                                  ? at::zeros(tensor.sizes(), wide)
                                  : new_zeros(tensor.sizes(), arguments_.options(leaf));
  }
  const auto view = make_view(op_.qualified(kind_), leaf, cut_of(leaf), visible);
  TORCH_INTERNAL_ASSERT(view, "new memory can be viewed");
  block_.set_view(*leaf.diff_view(), view->view);
  at::Tensor owners;
  if (use.promised && op_.options.checks(arguments_.device) == Checks::All) {
    owners = new_owners(tensor.numel() / components, arguments_.device);
    kept_.push_back(owners);
  }
  set_gradient_slots(leaf, wanted.gathered ? &*wanted.gathered : nullptr, owners,
                     [&](int slot, uint64_t value, uint64_t) { block_.set_slot(slot, value); });
}

// Records that found no place are looked at only where somebody asked to know: the GPU must be waited for.
void WholeTensors::finish() {
  for (const auto& [given, copy] : copied_) given.copy_(copy);
  const bool asks = is_deterministic() || op_.options.checks(arguments_.device) == Checks::All;
  for (Wanted& one : wanted_) {
    if (!one.gathered) continue;
    const bool looks = asks && !backend_for(arguments_.device.type()).is_capturing(arguments_.device);
    one.memory = reduced(op_.qualified(kind_), leaf_of(one.leaf), arguments_.components(leaf_of(one.leaf)),
                         *one.gathered, looks);
  }
}

at::Tensor WholeTensors::gradient(int leaf) const {
  const auto wanted = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& one) { return one.leaf == leaf; });
  return like_argument(wanted->memory, arguments_.tensors[leaf]);
}

}  // namespace torch_slang
