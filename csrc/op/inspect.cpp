#include "op/inspect.h"

#include <c10/util/Exception.h>

#include "backend/cuda/compile.h"
#include "backend/marks.h"
#include "op/specialize.h"

namespace torch_slang {

std::string cubin_for(const Operator& op, OpKind kind, const std::vector<ElementType>& types, bool dense,
                      const std::string& architecture) {
  TORCH_CHECK(op.signature(kind) != nullptr, op.ns, "::", op.function.name, " has no op of this kind");
  const KernelKey key{kind, dense ? 0 : ~uint64_t{0}, /*independent=*/true, c10::Device(c10::kCUDA, 0), types};
  for (KnownUse known;;) {
    const KernelSource source = specialize(op, key, known, op.options);
    CudaCompilation compiled = compile_for_architecture(source, architecture);
    if (op.is_mapped() || !learn(op, key, find_marks(compiled.ptx, source.view_count), known)) {
      return std::move(compiled.image);
    }
  }
}

}  // namespace torch_slang
