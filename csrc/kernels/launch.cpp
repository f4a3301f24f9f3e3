#include "kernels/launch.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "backend/launch_shape.h"
#include "gradients/gathered_gradient.h"
#include "kernels/sample_memory.h"
#include "kernels/shared_elements.h"
#include "operators/element_types.h"
#include "operators/faults.h"

namespace torch_slang {

namespace {

constexpr uint32_t kPreferredBlock = 256;  // of a GPU kernel that is not known yet

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type();
}

}  // namespace

LaunchMemory::LaunchMemory(const BoundCall& call, std::shared_ptr<const LoadedKernel> known_backward)
    : call_(call),
      op_(call.op),
      arguments_(call.arguments),
      known_backward_(std::move(known_backward)),
      block_(call.op.layout) {
  const auto& [op, kind, arguments, bound] = call;
  bytes_.resize(op.layout.view_count(), 0);
  op.dims.write(bound, block_);
  if (arguments.has_samples()) {
    constexpr int64_t kMostSamples = std::numeric_limits<uint32_t>::max();
    const int64_t samples = sample_count(arguments);
    TORCH_CHECK(samples <= kMostSamples, call_.name(), ": expected at most ", kMostSamples,
                " samples in a call under torch.vmap, but got ", samples, ": pass a chunk_size to torch.vmap");
    block_.set_samples(sample_sizes(arguments));
  }
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (arguments.numbers[i] != nullptr) write_number(static_cast<int>(i), *arguments.numbers[i]);
    if (!leaf.is_view()) continue;
    write_absent_sizes(leaf.place().primal_view, static_cast<int>(i));
    if (leaf.diff_view()) write_absent_sizes(*leaf.diff_view(), static_cast<int>(i));
  }
}

void LaunchMemory::write_component(int slot, ElementType type, const c10::IValue& value, const Leaf& leaf) {
  TORCH_CHECK(block_.set_number(slot, type, value), call_.name(), ": expected ", leaf.name, " to fit in ",
              leaf.slang_type, ", but got ", value);
}

void LaunchMemory::write_number(int index, const c10::IValue& value) {
  const Leaf& leaf = op_.function.leaves[index];
  const ElementType type = arguments_.type_of(leaf);
  if (leaf.element.shape.empty()) {
    write_component(leaf.value().slot, type, value, leaf);
    return;
  }
  const auto list = value.toListRef();
  TORCH_CHECK(static_cast<int64_t>(list.size()) == component_count(leaf.element), call_.name(), ": expected ",
              leaf.name, " (", leaf.slang_type, ") to have ", component_count(leaf.element), " numbers, but got ",
              list.size());
  for (size_t i = 0; i < list.size(); ++i)
    write_component(leaf.value().slot + static_cast<int>(i), type, list[i], leaf);
}

// A value on the launch's device is read there, at the pointer; one on the CPU travels in the slots, unless samples have their own.
void LaunchMemory::write_value_tensor(const ValueLeaf& value, const at::Tensor& given) {
  if (!is_shared_by_samples(given, sample_dims())) {
    const at::Tensor here = given.to(arguments_.device);
    kept_.push_back(are_samples_contiguous(here, sample_dims()) ? here : packed_samples(here, sample_dims()));
    set_slot(*value.pointer_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
    return block_.set_slot_steps(*value.pointer_slot, steps_of(kept_.back(), sample_dims()));
  }
  const at::Tensor tensor = first_sample(given, sample_dims());
  if (tensor.device() != arguments_.device) return block_.set_components(value.slot, tensor);
  kept_.push_back(tensor.contiguous());
  set_slot(*value.pointer_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
}

ViewCut LaunchMemory::cut_of(int leaf) const {
  const ViewShape& shape = op_.shapes.view(leaf);
  return {sample_dims(), shape.leading, shape.dims.size(), op_.function.leaves[leaf].element.shape.size()};
}

// Arguments of a launch that are one memory seen in one way stay so: they share the copy.
at::Tensor LaunchMemory::packed_copy(const at::Tensor& given) const {
  for (const auto& [caller, copy] : copied_) {
    if (same_memory(caller, given)) return copy;
  }
  return packed_samples(given, sample_dims());
}

void LaunchMemory::write_view(int view, int leaf, const at::Tensor& given, bool written) {
  at::Tensor tensor = given.is_neg() ? given.resolve_neg() : given;
  auto visible = make_view(call_.name(), op_.function.leaves[leaf], cut_of(leaf), tensor);
  if (!visible) {
    tensor = packed_copy(tensor);
    visible = make_view(call_.name(), op_.function.leaves[leaf], cut_of(leaf), tensor);
    TORCH_INTERNAL_ASSERT(visible, "a contiguous copy can be viewed");
  }
  if (!tensor.is_same(given)) {
    kept_.push_back(tensor);
    if (written) copied_.emplace_back(given, tensor);
  }
  if (op_.shapes.has_static_rank(leaf)) {
    if (!visible->dense)
      strided_ |= view_bit(view);
    else if (view < 63)
      strided_ &= ~view_bit(view);
    if (visible->dense && op_.shares[leaf].run > 0)
      fits_vectors_ = fits_vectors_ && begins_at_vector(tensor) && visible->steps_are_vectors();
  }
  if (sample_dims() > 0) block_.set_view_steps(view, visible->steps);
  bytes_[view] = std::min(tensor.nbytes(), tensor.storage().nbytes());
  block_.set_view(view, visible->view);
}

unsigned LaunchMemory::size_of_dim(const DeviceDim& dim) const {
  return dim.constant ? static_cast<unsigned>(*dim.constant) : block_.dim(dim.dim);
}

// Whether contiguous memory for any leaf, its gradient's included, would have each row along x begin at a multiple of a vector.
bool LaunchMemory::suits_vectors() const {
  if (!fits_vectors_) return false;
  for (size_t i = 0; i < op_.function.leaves.size(); ++i) {
    // The next sample begins where one ends, so then its size counts too.
    if (op_.shares[i].run == 0 || (op_.shares[i].dims.front().axis == 0 && sample_dims() == 0)) continue;
    const Leaf& leaf = op_.function.leaves[i];
    const auto& dims = op_.dims.of(static_cast<int>(i));
    int64_t bytes = component_count(leaf.element) * size_of(arguments_.type_of(leaf));
    for (size_t d = dims.size(); d-- > 0;) {
      bytes *= size_of_dim(dims[d]);
      if (op_.shares[i].dims[d].axis == 0 && sample_dims() == 0) break;
    }
    if (bytes % kVectorBytes != 0) return false;
  }
  return true;
}

// Kernels may ask the size of a view that has no memory.
void LaunchMemory::write_absent_sizes(int view, int leaf) {
  TslView absent = {};
  const auto set = [&](size_t i, int64_t size) { absent.sizes[i] = static_cast<unsigned>(size); };
  if (op_.shapes.has_static_rank(leaf)) {
    const auto& dims = op_.dims.of(leaf);
    for (size_t i = 0; i < dims.size(); ++i) {
      set(i, size_of_dim(dims[i]));
    }
    absent.dimensionCount = static_cast<unsigned>(dims.size());
  } else {
    const int source = op_.shapes.view(leaf).same_as >= 0 ? op_.shapes.view(leaf).same_as : leaf;
    const auto& sizes = call_.bound.any_shapes[source];
    const size_t rank = sizes.size() - op_.function.leaves[source].element.shape.size();
    for (size_t i = 0; i < rank && i < kTslMaxDims; ++i) set(i, sizes[i]);
    absent.dimensionCount = static_cast<unsigned>(rank);
  }
  block_.set_view(view, absent);
}

void LaunchMemory::set_primal(int index, const at::Tensor& tensor) {
  const Leaf& leaf = op_.function.leaves[index];
  if (leaf.is_value()) return write_value_tensor(leaf.value(), tensor);
  if (known_backward_ != nullptr && known_backward_->unused[index]) return;  // sizes are in the block already
  const bool may_be_written = is_launch(call_.kind) && !leaf.view().is_in;
  if (is_launch(call_.kind)) launch_views_.emplace_back(tensor, may_be_written);
  write_view(leaf.place().primal_view, index, tensor, may_be_written);
}

void LaunchMemory::set_gradient(int index, const at::Tensor& tensor) {
  if (is_launch(call_.kind)) note_written(tensor);
  write_view(*op_.function.leaves[index].diff_view(), index, tensor, is_launch(call_.kind));
}

void LaunchMemory::set_tangent(int index, const at::Tensor& tensor) {
  const Leaf& leaf = op_.function.leaves[index];
  if (leaf.is_view()) {
    launch_views_.emplace_back(tensor, !leaf.view().is_in);
    write_view(*leaf.diff_view(), index, tensor, !leaf.view().is_in);
    return;
  }
  const at::Tensor here = tensor.to(arguments_.device);
  kept_.push_back(are_samples_contiguous(here, sample_dims()) ? here : packed_samples(here, sample_dims()));
  set_slot(*leaf.value().gradient_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
  if (sample_dims() > 0) block_.set_slot_steps(*leaf.value().gradient_slot, steps_of(kept_.back(), sample_dims()));
}

void LaunchMemory::set_slot(int slot, uint64_t value, int64_t bytes) {
  block_.set_slot(slot, value);
  if (bytes == 0 || sample_dims() == 0) return;
  c10::SmallVector<int64_t, 2> steps(sample_dims());
  for (size_t d = steps.size(); d-- > 0; bytes *= block_.samples().sizes[d]) steps[d] = bytes;
  block_.set_slot_steps(slot, steps);
}

void LaunchMemory::note_written(const at::Tensor& tensor) { launch_views_.emplace_back(tensor, true); }

// Functional ops write only to memory of their own; a launch op writes where the caller says.
bool LaunchMemory::views_are_independent() const {
  for (size_t i = 0; i < launch_views_.size(); ++i) {
    const auto& [tensor, written] = launch_views_[i];
    if (written && at::has_internal_overlap(tensor) != at::MemOverlap::No) return false;
    for (size_t j = 0; j < i; ++j) {
      if (!written && !launch_views_[j].second) continue;
      if (may_overlap(tensor, launch_views_[j].first)) return false;
    }
  }
  return true;
}

KernelKey LaunchMemory::key() const {
  KernelKey key{call_.kind, strided_, views_are_independent(), arguments_.device, arguments_.types};
  for (size_t i = 0; i < arguments_.mask.size(); ++i) {
    const Leaf& leaf = op_.function.leaves[op_.differentiable[i]];
    if (!arguments_.mask[i] && leaf.diff_view() && *leaf.diff_view() < 63) key.unwanted |= view_bit(*leaf.diff_view());
  }
  // What comes later is contiguous, and adds no dimension of samples.
  if (sample_dims() > 0 && !arguments_.device.is_cpu()) {
    key.sample_dims = static_cast<int>(joined(block_.samples()).sizes.size());
  }
  return key;
}

namespace {

LaunchShape launch_shape(const BoundCall& call, const Sizes<int64_t>& total, uint32_t preferred_block) {
  static constexpr uint32_t kBlock2[3] = {32, 8, 1};
  static constexpr uint32_t kBlock3[3] = {8, 8, 4};
  const auto& given = call.op.function.kernel().block_size;
  const int rank = total[2] > 1 ? 3 : total[1] > 1 ? 2 : 1;
  LaunchShape shape;
  for (size_t i = 0; i < 3; ++i) {
    shape.block[i] = !given.empty() ? (i < given.size() ? static_cast<uint32_t>(given[i]) : 1)
                     : rank == 1    ? (i == 0 ? preferred_block : 1)
                     : rank == 2    ? kBlock2[i]
                                    : kBlock3[i];
    const int64_t blocks = (total[i] + shape.block[i] - 1) / shape.block[i];
    TORCH_CHECK(blocks <= std::numeric_limits<uint32_t>::max() &&
                    blocks * shape.block[i] <= int64_t{std::numeric_limits<uint32_t>::max()} + 1,
                call.name(), ": ", total[i], " threads in ", "xyz"[i], " are more than uint indices reach");
    shape.grid[i] = static_cast<uint32_t>(blocks);
  }
  return shape;
}

// Whether there may be as many threads along x as 32 bits have numbers.
bool wraps_around(const BoundCall& call, const LaunchShape* launch) {
  constexpr uint64_t kMostInBlock = 1024;
  const uint64_t threads = launch != nullptr
                               ? uint64_t{launch->grid[0]} * launch->block[0]
                               : static_cast<uint64_t>(call.op.shapes.launch_total(call.bound)[0]) + kMostInBlock;
  return threads > std::numeric_limits<uint32_t>::max();
}

// What this call is likely to be followed by. Nothing records a launch, but who wants no gradients mostly gives it tensors
// that require none; inside of an autograd.Function they still do.
std::optional<OpKind> likely_backward(const BoundCall& call, const CallContext& context) {
  const bool is_forward = call.kind == OpKind::Forward;
  const OpKind backward = is_forward ? OpKind::Backward : OpKind::LaunchBackward;
  if ((!is_forward && call.kind != OpKind::Launch) || call.op.of(backward) == nullptr) return std::nullopt;
  const auto requires_grad = [&](int leaf) {
    return call.arguments.tensors[leaf].defined() && call.arguments.tensors[leaf].requires_grad();
  };
  const bool is_likely = is_forward
                             ? context.is_recorded
                             : std::any_of(call.op.differentiable.begin(), call.op.differentiable.end(), requires_grad);
  return is_likely ? std::optional(backward) : std::nullopt;
}

ThreadFacts thread_facts(const LaunchMemory& memory, const KernelKey& key, const LaunchShape* launch) {
  const auto& [op, kind, arguments, bound] = memory.call();
  ThreadFacts facts;
  facts.at_once = backend_for(arguments.device.type()).threads_at_once(arguments.device);
  if (facts.at_once == 0) return facts;
  if (launch != nullptr) {
    facts.shape = *launch;
    for (size_t i = 0; i < 3; ++i) facts.bounds[i] = uint64_t{launch->grid[i]} * launch->block[i];
  } else {
    const Sizes<int64_t> total = op.shapes.launch_total(bound);
    facts.shape = launch_shape(memory.call(), total, kPreferredBlock);
    std::copy(total.begin(), total.end(), facts.bounds);
    constexpr uint32_t kMostBlocks = 65535;  // along y and z, of a GPU
    facts.is_flat = std::max(facts.shape.grid[1], facts.shape.grid[2]) > kMostBlocks;
  }
  facts.may_be_measured = !arguments.has_samples();
  // Users' own additions are summed without a measurement: to look for its outcome would cost each launch time.
  facts.must_add_apart = is_deterministic() || (!is_backward(key.kind) && wave_sums_setting() == WaveSums::Never) ||
                         !arguments.have_addition_targets(op.function, op.layout.view_count());
  facts.may_sum = facts.may_tile = is_backward(key.kind) && !facts.must_add_apart;
  facts.bytes = own_bytes(op, key.kind, key.types);
  if (key.independent && memory.suits_vectors()) facts.lanes = lanes_of_vectors(op, key.kind, key.types);
  facts.shared_axis = shared_axis(op, key);
  return facts;
}

// Compiled for these blocks alone, a kernel keeps in memory what their threads have no registers for.
std::shared_ptr<const LoadedKernel> kernel_of_block(const BoundCall& call, KernelTable& kernels, KernelKey key,
                                                    const CallContext& context, const LaunchShape& launch) {
  backend_for(call.arguments.device.type()).check_launch(call.name(), launch, call.arguments.device);
  std::copy(std::begin(launch.block), std::end(launch.block), key.block.begin());
  return kernels.get(key, context);
}

}  // namespace

ChosenKernel choose_kernel(const LaunchMemory& memory, KernelTable& kernels, const CallContext& context,
                           ChooseThreads choose, const LaunchShape* launch) {
  const BoundCall& call = memory.call();
  KernelKey key = memory.key();
  key.wraps = key.device.is_cpu() && wraps_around(call, launch);
  const ThreadFacts facts = thread_facts(memory, key, launch);
  key.threads = likely_threads(facts);
  const ChosenThreads threads = choose(key, facts);
  key.threads = threads.threads;
  ChosenKernel chosen{nullptr, threads.is_measured};
  chosen.loaded = kernels.get(key, context, [&] {
    const auto kind = likely_backward(call, context);
    if (!kind) return;
    KernelKey backward = key;
    backward.kind = *kind;
    backward.threads = likely_threads(thread_facts(memory, backward, launch));
    kernels.prefetch(backward, {});
  });
  if (launch != nullptr && !chosen.kernel().fits(*launch))
    chosen.loaded = kernel_of_block(call, kernels, std::move(key), context, *launch);
  return chosen;
}

LaunchShape launch_shape(const BoundCall& call, const Kernel& kernel) {
  return launch_shape(call, call.op.shapes.launch_total(call.bound), kernel.preferred_block());
}

// A copy that goes back whole would undo what the kernel stored through another argument that shares the memory.
void LaunchMemory::check_copies() const {
  for (const auto& [caller, copy] : copied_) {
    for (const auto& [other, written] : launch_views_) {
      if (same_memory(caller, other)) continue;  // they share the copy
      TORCH_CHECK(
          !may_overlap(caller, other), call_.name(),
          ": two arguments share memory, and one of them must be copied since its strides or alignment do not suit "
          "the kernel: shapes ",
          caller.sizes(), " and ", other.sizes(), "; pass contiguous tensors");
    }
  }
}

void LaunchMemory::note(const ChosenKernel& chosen, const LaunchShape& shape) const {
  uint64_t bytes = 0;
  for (const uint64_t view : bytes_) bytes += view;
  const uint64_t blocks = shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  LastLaunch& last = chosen.loaded->last;
  last.threads.store(blocks * threads_in_block(shape) * block_.samples().count(), std::memory_order_relaxed);
  last.bytes.store(bytes, std::memory_order_relaxed);
  last.is_measured.store(chosen.is_measured, std::memory_order_relaxed);
}

bool LaunchMemory::is_captured() const { return backend_for(arguments_.device.type()).is_capturing(arguments_.device); }

void LaunchMemory::launch(const ChosenKernel& chosen, const LaunchShape& shape) {
  if (shape.grid[0] == 0 || shape.grid[1] == 0 || shape.grid[2] == 0) return;
  check_copies();
  // Limits of the device are the caller's to keep where the grid is.
  backend_for(arguments_.device.type())
      .check_launch(call_.name(), is_launch(call_.kind) ? shape : chosen.kernel().on_device(shape), arguments_.device);
  FaultRecord faults(op_, call_.kind, arguments_, /*names_threads=*/true);
  note(chosen, shape);
  block_.launch(chosen.kernel(), shape, faults);
  for (const auto& [caller, copy] : copied_) caller.copy_(copy);
  faults.check();
}

}  // namespace torch_slang
