#include "module/inspect.h"

#include <c10/util/Exception.h>

#include "backend/cuda/compile.h"
#include "backend/marks.h"
#include "kernel/shared_elements.h"
#include "kernel/specialize.h"

namespace torch_slang {
namespace {

KernelKey key_of(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense) {
  TORCH_CHECK(op.signature(kind) != nullptr, op.ns, "::", op.function.name, " has no op of this kind");
  return {kind, dense ? 0 : ~uint64_t{0}, /*independent=*/true, c10::Device(c10::kCUDA, 0), types};
}

}  // namespace

std::string cuda_text_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense) {
  return cuda_source_text(specialize(op, key_of(op, kind, types, dense), {}, op.options));
}

std::string cubin_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                      const std::string& architecture, int groups, int lanes,
                      const std::array<uint32_t, 3>& block_of_launch) {
  KernelKey key = key_of(op, kind, types, dense);
  key.threads.count = groups * lanes;
  key.threads.lanes = lanes;
  key.block = block_of_launch;
  const auto& block = op.function.block_size;
  for (size_t i = 0; i < 3 && lanes > 1; ++i)
    key.threads.block[i] = i < block.size() ? static_cast<uint32_t>(block[i]) : i == 0 && block.empty() ? 256 : 1;
  if (const int axis = shared_axis(op, key); axis >= 0 && lanes > 1) {
    key.threads.axis = axis;
    key.threads.shares = true;
    key.threads.repeats = 2;
  }
  for (KnownUse known;;) {
    const KernelSource source = specialize(op, key, known, op.options);
    CudaCompilation compiled = compile_for_architecture(source, architecture);
    if (op.is_elementwise() || !learn(op, key, find_marks(compiled.ptx, source.view_count), known)) {
      return std::move(compiled.image);
    }
  }
}

}  // namespace torch_slang
