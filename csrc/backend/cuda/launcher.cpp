#include "backend/cuda/launcher.h"

#include "backend/map_text.h"

namespace torch_slang {
namespace {

// Each thread makes a kernel object from its own indices and runs the entry. The block's and the grid's dimensions are the
// hardware's, in special registers and constant memory, which costs less than reading the argument block.
constexpr const char* kText =
    R"(extern "C" __global__ void LAUNCH_BOUNDS tsl_entry(const __grid_constant__ TslArgs args) {
  tsl::mark_control();
  Kernel kernel{{make_uint3(threadIdx.x, threadIdx.y, threadIdx.z), make_uint3(blockIdx.x, blockIdx.y, blockIdx.z),
                 make_uint3(blockDim.x, blockDim.y, blockDim.z), make_uint3(gridDim.x, gridDim.y, gridDim.z), args}};
  kernel.ENTRY();
}
)";

void replace(std::string& text, const std::string& word, const std::string& by) {
  text.replace(text.find(word), word.size(), by);
}

}  // namespace

std::string cuda_launcher(const KernelSource& source) {
  if (source.map) return cuda_map_launcher(source);
  const uint32_t threads = source.block[0] * source.block[1] * source.block[2];
  std::string text = kText;
  replace(text, "LAUNCH_BOUNDS", threads > 0 ? "__launch_bounds__(" + std::to_string(threads) + ")" : "");
  replace(text, "ENTRY", source.text.entry);
  return text;
}

}  // namespace torch_slang
