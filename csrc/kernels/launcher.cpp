#include "kernels/launcher.h"

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

Launcher::Launcher(const KernelSignature& op, KernelTable& kernels, OpKind kind, const Arguments& arguments,
                   const Bound<int64_t>& bound)
    : op_(op),
      kernels_(kernels),
      kind_(kind),
      arguments_(arguments),
      bound_(bound),
      name_(op.qualified(kind)),
      block_(op.layout) {
  if (kind == OpKind::Backward) known_backward_ = kernels.any_backward(arguments.types, arguments.device);
  bytes_.resize(op.layout.view_count(), 0);
  op.dims.write(bound, block_);
  if (arguments.has_samples()) {
    constexpr int64_t kMostSamples = std::numeric_limits<uint32_t>::max();
    const int64_t samples = sample_count(arguments);
    TORCH_CHECK(samples <= kMostSamples, name_, ": expected at most ", kMostSamples,
                " samples in a call under torch.vmap, but got ", samples, ": pass a chunk_size to torch.vmap");
    block_.set_samples(sample_sizes(arguments));
  }
  for (size_t i = 0; i < op.function.leaves.size(); ++i) {
    const Leaf& leaf = op.function.leaves[i];
    if (arguments.numbers[i] != nullptr) write_number(static_cast<int>(i), *arguments.numbers[i]);
    if (leaf.kind != LeafKind::View) continue;
    write_absent_sizes(leaf.primal_view, static_cast<int>(i));
    if (leaf.diff_view >= 0) write_absent_sizes(leaf.diff_view, static_cast<int>(i));
  }
}

void Launcher::write_component(int slot, ElementType type, const c10::IValue& value, const Leaf& leaf) {
  TORCH_CHECK(block_.set_number(slot, type, value), name_, ": expected ", leaf.name, " to fit in ", leaf.slang_type,
              ", but got ", value);
}

void Launcher::write_number(int index, const c10::IValue& value) {
  const Leaf& leaf = op_.function.leaves[index];
  const ElementType type = arguments_.type_of(leaf);
  if (leaf.element.shape.empty()) {
    write_component(leaf.slot, type, value, leaf);
    return;
  }
  const auto list = value.toListRef();
  TORCH_CHECK(static_cast<int64_t>(list.size()) == component_count(leaf.element), name_, ": expected ", leaf.name, " (",
              leaf.slang_type, ") to have ", component_count(leaf.element), " numbers, but got ", list.size());
  for (size_t i = 0; i < list.size(); ++i) write_component(leaf.slot + static_cast<int>(i), type, list[i], leaf);
}

// A value on the launch's device is read there, at the pointer; one on the CPU travels in the slots, unless samples have their own.
void Launcher::write_value_tensor(const Leaf& leaf, const at::Tensor& given) {
  if (!is_shared_by_samples(given, sample_dims())) {
    const at::Tensor here = given.to(arguments_.device);
    kept_.push_back(are_samples_contiguous(here, sample_dims()) ? here : packed_samples(here, sample_dims()));
    set_slot(leaf.pointer_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
    return block_.set_slot_steps(leaf.pointer_slot, steps_of(kept_.back(), sample_dims()));
  }
  const at::Tensor tensor = first_sample(given, sample_dims());
  if (tensor.device() != arguments_.device) return block_.set_components(leaf.slot, tensor);
  kept_.push_back(tensor.contiguous());
  set_slot(leaf.pointer_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
}

ViewCut Launcher::cut_of(int leaf) const {
  const ViewShape& shape = op_.shapes.view(leaf);
  return {sample_dims(), shape.leading, shape.dims.size(), op_.function.leaves[leaf].element.shape.size()};
}

// Arguments of a launch that are one memory seen in one way stay so: they share the copy.
at::Tensor Launcher::packed_copy(const at::Tensor& given) const {
  for (const auto& [caller, copy] : copied_) {
    if (same_memory(caller, given)) return copy;
  }
  return packed_samples(given, sample_dims());
}

void Launcher::write_view(int view, int leaf, const at::Tensor& given, bool written) {
  at::Tensor tensor = given.is_neg() ? given.resolve_neg() : given;
  auto visible = make_view(name_, op_.function.leaves[leaf], cut_of(leaf), tensor);
  if (!visible) {
    tensor = packed_copy(tensor);
    visible = make_view(name_, op_.function.leaves[leaf], cut_of(leaf), tensor);
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

unsigned Launcher::size_of_dim(const DeviceDim& dim) const {
  return dim.constant ? static_cast<unsigned>(*dim.constant) : block_.dim(dim.dim);
}

// Whether contiguous memory for any leaf, its gradient's included, would have each row along x begin at a multiple of a vector.
bool Launcher::rows_are_vectors() const {
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
void Launcher::write_absent_sizes(int view, int leaf) {
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
    const auto& sizes = bound_.any_shapes[source];
    const size_t rank = sizes.size() - op_.function.leaves[source].element.shape.size();
    for (size_t i = 0; i < rank && i < kTslMaxDims; ++i) set(i, sizes[i]);
    absent.dimensionCount = static_cast<unsigned>(rank);
  }
  block_.set_view(view, absent);
}

void Launcher::set_primal(int index, const at::Tensor& tensor) {
  const Leaf& leaf = op_.function.leaves[index];
  if (leaf.kind == LeafKind::Value) {
    write_value_tensor(leaf, tensor);
    return;
  }
  if (known_backward_ != nullptr && known_backward_->unused[index]) return;  // sizes are in the block already
  const bool may_be_written = is_launch(kind_) && !leaf.is_in;
  if (is_launch(kind_)) launch_views_.emplace_back(tensor, may_be_written);
  write_view(leaf.primal_view, index, tensor, may_be_written);
}

void Launcher::set_gradient(int index, const at::Tensor& tensor) {
  if (is_launch(kind_)) note_written(tensor);
  write_view(op_.function.leaves[index].diff_view, index, tensor, is_launch(kind_));
}

void Launcher::set_tangent(int index, const at::Tensor& tensor) {
  const Leaf& leaf = op_.function.leaves[index];
  if (leaf.kind == LeafKind::View) {
    launch_views_.emplace_back(tensor, !leaf.is_in);
    write_view(leaf.diff_view, index, tensor, !leaf.is_in);
    return;
  }
  const at::Tensor here = tensor.to(arguments_.device);
  kept_.push_back(are_samples_contiguous(here, sample_dims()) ? here : packed_samples(here, sample_dims()));
  set_slot(leaf.gradient_slot, reinterpret_cast<uintptr_t>(kept_.back().const_data_ptr()));
  if (sample_dims() > 0) block_.set_slot_steps(leaf.gradient_slot, steps_of(kept_.back(), sample_dims()));
}

void Launcher::set_slot(int slot, uint64_t value, int64_t bytes) {
  block_.set_slot(slot, value);
  if (bytes == 0 || sample_dims() == 0) return;
  c10::SmallVector<int64_t, 2> steps(sample_dims());
  for (size_t d = steps.size(); d-- > 0; bytes *= block_.samples().sizes[d]) steps[d] = bytes;
  block_.set_slot_steps(slot, steps);
}

void Launcher::note_written(const at::Tensor& tensor) { launch_views_.emplace_back(tensor, true); }

// Functional ops write only to memory of their own; a launch op writes where the caller says.
bool Launcher::views_are_independent() const {
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

std::shared_ptr<const LoadedKernel> Launcher::kernel(const CallContext& context, ChooseThreads choose,
                                                     const LaunchShape* launch) {
  KernelKey key{kind_, strided_, views_are_independent(), arguments_.device, arguments_.types};
  for (size_t i = 0; i < arguments_.mask.size(); ++i) {
    const Leaf& leaf = op_.function.leaves[op_.differentiable[i]];
    if (!arguments_.mask[i] && leaf.diff_view >= 0 && leaf.diff_view < 63) key.unwanted |= view_bit(leaf.diff_view);
  }
  // What comes later is contiguous, and adds no dimension of samples.
  if (sample_dims() > 0 && !arguments_.device.is_cpu()) {
    key.sample_dims = static_cast<int>(joined(block_.samples()).sizes.size());
  }
  key.wraps = arguments_.device.is_cpu() && wraps_around(launch);
  const ThreadFacts facts = thread_facts(key, launch);
  key.threads = likely_threads(facts);
  const ChosenThreads chosen = choose(key, facts);
  key.threads = chosen.threads;
  is_measured_ = chosen.is_measured;
  loaded_ = kernels_.get(key, context, [&] {
    if (const auto backward = likely_backward(context)) prefetch_backward(key, *backward, launch);
  });
  if (launch != nullptr && !loaded_->kernel->fits(*launch)) loaded_ = kernel_of_block(std::move(key), context, *launch);
  return loaded_;
}

// Whether there may be as many threads along x as 32 bits have numbers.
bool Launcher::wraps_around(const LaunchShape* launch) const {
  constexpr uint64_t kMostInBlock = 1024;
  const uint64_t threads = launch != nullptr ? uint64_t{launch->grid[0]} * launch->block[0]
                                             : static_cast<uint64_t>(op_.shapes.launch_total(bound_)[0]) + kMostInBlock;
  return threads > std::numeric_limits<uint32_t>::max();
}

// What this call is likely to be followed by. Nothing records a launch, but who wants no gradients mostly gives it tensors
// that require none; inside of an autograd.Function they still do.
std::optional<OpKind> Launcher::likely_backward(const CallContext& context) const {
  const bool is_forward = kind_ == OpKind::Forward;
  const OpKind backward = is_forward ? OpKind::Backward : OpKind::LaunchBackward;
  if ((!is_forward && kind_ != OpKind::Launch) || op_.of(backward) == nullptr) return std::nullopt;
  const auto requires_grad = [&](int leaf) {
    return arguments_.tensors[leaf].defined() && arguments_.tensors[leaf].requires_grad();
  };
  const bool is_likely = is_forward ? context.is_recorded
                                    : std::any_of(op_.differentiable.begin(), op_.differentiable.end(), requires_grad);
  return is_likely ? std::optional(backward) : std::nullopt;
}

void Launcher::prefetch_backward(KernelKey key, OpKind kind, const LaunchShape* launch) const {
  key.kind = kind;
  key.threads = likely_threads(thread_facts(key, launch));
  kernels_.prefetch(key, {});
}

// Compiled for these blocks alone, a kernel keeps in memory what their threads have no registers for.
std::shared_ptr<const LoadedKernel> Launcher::kernel_of_block(KernelKey key, const CallContext& context,
                                                              const LaunchShape& launch) const {
  backend_for(arguments_.device.type()).check_launch(name_, launch, arguments_.device);
  std::copy(std::begin(launch.block), std::end(launch.block), key.block.begin());
  return kernels_.get(key, context);
}

ThreadFacts Launcher::thread_facts(const KernelKey& key, const LaunchShape* launch) const {
  ThreadFacts facts;
  facts.at_once = backend_for(arguments_.device.type()).threads_at_once(arguments_.device);
  if (facts.at_once == 0) return facts;
  if (launch != nullptr) {
    facts.shape = *launch;
    for (size_t i = 0; i < 3; ++i) facts.bounds[i] = uint64_t{launch->grid[i]} * launch->block[i];
  } else {
    const Sizes<int64_t> total = op_.shapes.launch_total(bound_);
    facts.shape = shape(total, kPreferredBlock);
    std::copy(total.begin(), total.end(), facts.bounds);
    constexpr uint32_t kMostBlocks = 65535;  // along y and z, of a GPU
    facts.is_flat = std::max(facts.shape.grid[1], facts.shape.grid[2]) > kMostBlocks;
  }
  facts.may_be_measured = sample_dims() == 0;
  // Users' own additions are summed without a measurement: to look for its outcome would cost each launch time.
  facts.must_add_apart = is_deterministic() || (!is_backward(key.kind) && wave_sums_setting() == WaveSums::Never) ||
                         !arguments_.have_addition_targets(op_.function, op_.layout.view_count());
  facts.may_sum = facts.may_tile = is_backward(key.kind) && !facts.must_add_apart;
  facts.bytes = own_bytes(op_, key.kind, key.types);
  if (fits_vectors_ && key.independent && rows_are_vectors()) facts.lanes = lanes_of_vectors(op_, key.kind, key.types);
  facts.shared_axis = shared_axis(op_, key);
  return facts;
}

void Launcher::note(const LaunchShape& shape) const {
  uint64_t bytes = 0;
  for (const uint64_t view : bytes_) bytes += view;
  const uint64_t blocks = shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
  loaded_->last.threads.store(blocks * threads_in_block(shape) * block_.samples().count(), std::memory_order_relaxed);
  loaded_->last.bytes.store(bytes, std::memory_order_relaxed);
  loaded_->last.is_measured.store(is_measured_, std::memory_order_relaxed);
}

bool Launcher::is_captured() const { return backend_for(arguments_.device.type()).is_capturing(arguments_.device); }

// A copy that goes back whole would undo what the kernel stored through another argument that shares the memory.
void Launcher::check_copies() const {
  for (const auto& [caller, copy] : copied_) {
    for (const auto& [other, written] : launch_views_) {
      if (same_memory(caller, other)) continue;  // they share the copy
      TORCH_CHECK(
          !may_overlap(caller, other), name_,
          ": two arguments share memory, and one of them must be copied since its strides or alignment do not suit "
          "the kernel: shapes ",
          caller.sizes(), " and ", other.sizes(), "; pass contiguous tensors");
    }
  }
}

LaunchShape Launcher::shape(const Kernel& kernel) const {
  return shape(op_.shapes.launch_total(bound_), kernel.preferred_block());
}

LaunchShape Launcher::shape(const Sizes<int64_t>& total, uint32_t preferred_block) const {
  static constexpr uint32_t kBlock2[3] = {32, 8, 1};
  static constexpr uint32_t kBlock3[3] = {8, 8, 4};
  const auto& given = op_.function.block_size;
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
                name_, ": ", total[i], " threads in ", "xyz"[i], " are more than uint indices reach");
    shape.grid[i] = static_cast<uint32_t>(blocks);
  }
  return shape;
}

void Launcher::launch(const Kernel& kernel, const LaunchShape& shape) {
  if (shape.grid[0] == 0 || shape.grid[1] == 0 || shape.grid[2] == 0) return;
  check_copies();
  // Limits of the device are the caller's to keep where the grid is.
  backend_for(arguments_.device.type())
      .check_launch(name_, is_launch(kind_) ? shape : kernel.on_device(shape), arguments_.device);
  FaultRecord faults(op_, kind_, arguments_, /*names_threads=*/true);
  note(shape);
  block_.launch(kernel, shape, faults);
  for (const auto& [caller, copy] : copied_) caller.copy_(copy);
  faults.check();
}

}  // namespace torch_slang
