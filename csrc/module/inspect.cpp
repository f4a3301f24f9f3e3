#include "module/inspect.h"

#include <c10/util/Exception.h>

#include "device_compilers/nvrtc/nvrtc_compiler.h"
#include "source/marks.h"
#include "specialise/kernel_key.h"

namespace torch_slang {
namespace {

KernelKey key_of(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense) {
  TORCH_CHECK(op.signature().of(kind) != nullptr, op.signature().full_name(), " has no op of this kind");
  return {kind, dense ? 0 : ~uint64_t{0}, /*independent=*/true, c10::Device(c10::kCUDA, 0), types};
}

}  // namespace

std::string cuda_text_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                          bool wave_sums) {
  KernelSource source = op.source(key_of(op, kind, types, dense));
  if (wave_sums) source.has_wave_sums = true;
  return cuda_source_text(source);
}

std::string cubin_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                      const std::string& architecture, int groups, int lanes,
                      const std::array<uint32_t, 3>& block_of_launch, int sample_dims, bool wave_sums) {
  KernelKey key = key_of(op, kind, types, dense);
  key.threads.count = groups * lanes;
  key.threads.lanes = lanes;
  key.block = block_of_launch;
  key.sample_dims = sample_dims;
  const Function& function = op.signature().function;
  const auto block = function.is_kernel() ? function.kernel().block_size : std::vector<int64_t>();
  for (size_t i = 0; i < 3 && lanes > 1; ++i)
    key.threads.block[i] = i < block.size() ? static_cast<uint32_t>(block[i]) : i == 0 && block.empty() ? 256 : 1;
  if (lanes > 1) op.share_threads(key);
  std::string cubin;
  int registers = 0;
  KernelSource last = op.source(key, [&](const KernelSource& source) {
    CudaCompilation compiled = compile_for_architecture(source, architecture);
    cubin = std::move(compiled.image);
    registers = compiled.registers;
    return find_marks(compiled.ptx, source.view_count);
  });
  if (!wave_sums) return cubin;
  last.has_wave_sums = true;
  if (!last.map) last.most_registers = registers_with_sums(registers);
  return compile_for_architecture(last, architecture).image;
}

}  // namespace torch_slang
