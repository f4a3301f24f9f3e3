#include "specialise/loaded_kernel.h"

namespace torch_slang {

KernelFacts common_facts(const KernelKey& key, const LoadedKernel& loaded) {
  KernelFacts facts;
  facts.kind = name_of(key.kind);
  for (const ElementType type : key.types) facts.types.emplace_back(name_of(type));
  facts.device = key.device.str();
  facts.registers = loaded.kernel->registers();
  if (key.block[0] > 0) facts.block.assign(key.block.begin(), key.block.end());
  facts.independent = key.independent;
  facts.threads = loaded.last.threads.load();
  facts.bytes = loaded.last.bytes.load();
  facts.is_measured = loaded.last.is_measured.load();
  facts.has_wave_sums = loaded.has_wave_sums;
  facts.has_tiled_waves = loaded.threads.tiles_waves;
  return facts;
}

}  // namespace torch_slang
