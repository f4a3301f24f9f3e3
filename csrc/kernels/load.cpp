#include "kernels/load.h"

#include <algorithm>

#include "kernels/learn.h"
#include "kernels/specialize.h"
#include "program/intrinsics.h"

namespace torch_slang {
namespace {

using Loaded = std::shared_ptr<LoadedKernel>;

// Which inputs have no memory is decided once, by the variant that was asked for first: a graph may have been recorded
// without them, and another variant, in which the compiler did not find out, must do without them too.
KnownUse known_before(const KernelKey& key, KernelTable& kernels) {
  KnownUse known;
  if (key.kind != OpKind::Backward) return known;
  if (const auto first = kernels.any_backward(key.types, key.device, &key)) known.unused = first->unused;
  return known;
}

// A kernel for some of the gradients: the facts of the kernel for all hold for it too, elements that are the thread's
// own among it, so its own marks tell nothing more.
Loaded load_narrowed(const KernelSignature& op, const KernelKey& key, const LoadedKernel& general) {
  KnownUse known{general.scratch_outputs, general.unused, general.own};
  known.shared.flip();
  known.indirect = general.indirect;
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->scratch_outputs = general.scratch_outputs;
  loaded->unused = general.unused;
  loaded->own = own_leaves(op, key, known);
  loaded->gradients = general.gradients;
  for (size_t i = 0; i < loaded->gradients.size(); ++i) {
    if (is_unwanted(key, op.function.leaves[i])) loaded->gradients[i] = {};
  }
  KernelSource source = specialize(op, key, known);
  source.has_wave_sums = general.has_wave_sums;
  source.most_registers = loaded->most_registers = general.most_registers;
  source.holds_sums = loaded->holds_sums = source.holds_sums && general.holds_sums;
  source.joins_neighbours = loaded->joins_neighbours = source.joins_neighbours && general.joins_neighbours;
  loaded->threads = source.threads;
  loaded->threads.adds_apart = general.threads.adds_apart;
  loaded->has_wave_sums = source.has_wave_sums;
  loaded->kernel = backend_for(key.device.type()).load(source, key.device);
  return loaded;
}

// Whether the kernel reads a gradient that it adds to.
bool takes_sums(const std::vector<GradientUse>& gradients) {
  return std::any_of(gradients.begin(), gradients.end(),
                     [](const GradientUse& use) { return use.added && use.consumed; });
}

// Whether there are additions to sum, and the kernel takes nothing from where it adds: Note [wave sums] in prelude/wave_sums.h.
bool adds_alone(const std::vector<GradientUse>& gradients, const DeviceText& text) {
  const auto is_added = [](const GradientUse& use) { return use.added; };
  return (uses(text, {intrinsics::kAddOnly}) || std::any_of(gradients.begin(), gradients.end(), is_added)) &&
         !takes_sums(gradients);
}

// A fact that the compiled code shows changes the kernel, which is compiled again until no new fact shows. Once the facts come from
// kernels without checks, the kernel with checks is compiled only at the end.
Loaded load_general(const KernelSignature& op, const KernelKey& key, KnownUse known) {
  Backend& backend = backend_for(key.device.type());
  const auto load = [&](const KernelSource& source) { return backend.load(source, key.device); };
  KernelSource source = specialize(op, key, known);
  std::shared_ptr<const Kernel> kernel = load(source), facts;
  const auto find_facts = [&] {
    const bool shows_facts =
        kernel != nullptr && !may_say_too_much(op, source, kernel->marks(), own_leaves(op, key, known));
    facts = shows_facts ? kernel : load(without_checks(source));
  };
  find_facts();
  check_written_views(op, key, facts->marks());
  while (learn(op, key, facts->marks(), known)) {
    source = specialize(op, key, known);
    kernel = facts == kernel ? load(source) : nullptr;
    find_facts();
  }
  if (kernel == nullptr) kernel = load(source);
  auto loaded = std::make_shared<LoadedKernel>();
  loaded->gradients = gradient_uses(op, key, facts->marks(), kernel->marks());
  if ((source.holds_sums || source.joins_neighbours) && takes_sums(loaded->gradients)) {
    source.holds_sums = source.joins_neighbours = false;
    kernel = load(source);
  }
  // The second compile of a kernel without room would be the longest, too: 51 s for a renderer's vertex shader's backward.
  const bool has_room =
      kernel->registers() <= kMostRegistersWithSums && kernel->group_shared_bytes() <= kMostSharedBytesWithSums;
  if (has_room && may_have_wave_sums(key, source) && adds_alone(loaded->gradients, source.text)) {
    source.threads.adds_apart = key.threads.adds_apart;
    source.has_wave_sums = !key.threads.adds_apart;
    if (source.has_wave_sums) {
      source.most_registers = registers_with_sums(kernel->registers());
      kernel = load(source);
    }
  }
  loaded->scratch_outputs = known.scratch_outputs;
  loaded->own = own_leaves(op, key, known);
  loaded->indirect = known.indirect;
  loaded->threads = source.threads;
  loaded->has_wave_sums = source.has_wave_sums;
  loaded->holds_sums = source.holds_sums;
  loaded->joins_neighbours = source.joins_neighbours;
  loaded->most_registers = source.most_registers;
  loaded->unused = known.unused.empty() ? unused_inputs(op, key, facts->marks(), kernel->marks()) : known.unused;
  loaded->kernel = std::move(kernel);
  return loaded;
}

}  // namespace

std::shared_ptr<const LoadedKernel> load_kernel(const KernelSignature& op, const KernelKey& key,
                                                const CallContext& context, KernelTable& kernels) {
  const bool is_narrowed = key.kind == OpKind::Backward && key.unwanted != 0;
  const KnownUse known = is_narrowed ? KnownUse() : known_before(key, kernels);
  const auto load_as = [&](const KernelKey& as) {
    if (!is_narrowed) return load_general(op, as, known);
    KernelKey all = as;
    all.unwanted = 0;
    return load_narrowed(op, as, *kernels.get(all, context));
  };
  auto loaded = load_as(key);
  const auto is_in_registers = [&] { return loaded->threads.lanes == 1 || loaded->kernel->local_bytes() == 0; };
  // Vectors that registers do not hold are worse than none; often it is the code that sums the lanes' additions that is too
  // much for loops over vectors to be unrolled.
  KernelKey with_less = key;
  if (!is_in_registers() && loaded->has_wave_sums) {
    with_less.threads.adds_apart = true;
    loaded = load_as(with_less);
  }
  if (is_in_registers()) return loaded;
  with_less.threads = key.threads;
  with_less.threads.lanes = 1;
  return load_as(with_less);
}

}  // namespace torch_slang
