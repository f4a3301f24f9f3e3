#include "device_compilers/nvrtc/launcher_text.h"

#include <c10/util/StringUtil.h>

#include "source/map_text.h"
#include "source/source_text.h"

namespace torch_slang {
namespace {

constexpr const char* kText =
    R"(extern "C" __global__ void LAUNCH_BOUNDS tsl_entry(const __grid_constant__ TslArgs args) {
  tsl::mark_control();
  ARGS
  tsl::run_tiles<Kernel, &Kernel::ENTRY, VECTORS, SHARED, tsl::TileShape<GROUPS, AXIS, REPEATS>, IS_BOUNDED>(known, uint3{BOUNDS});
}
)";

constexpr const char* kMatrixText =
    R"(extern "C" __global__ void __launch_bounds__(tsl::kTileThreads) tsl_entry(const __grid_constant__ TslArgs args) {
  tsl::mark_control();
  tsl::run_matrix_tiles<Kernel, &Kernel::ENTRY>(args);
}
)";

// Values are read in loops if there are many, which would keep a copy in memory.
constexpr int kMostCopiedSlots = 64;

void replace(std::string& text, const std::string& word, const std::string& by) {
  text.replace(text.find(word), word.size(), by);
}

}  // namespace

std::string cuda_launcher(const KernelSource& source) {
  if (source.map) return cuda_map_launcher(source);
  if (multiplies(source)) {
    std::string text = kMatrixText;
    replace(text, "ENTRY", source.text.entry);
    return text;
  }
  const uint32_t threads = source.block[0] * source.block[1] * source.block[2];
  const bool is_bounded = !source.thread_bounds.empty();
  std::string text = kText;
  replace(text, "LAUNCH_BOUNDS", threads > 0 ? c10::str("__launch_bounds__(", threads, ")") : "");
  // Of a copy in registers compilers know that no store of the kernel's changes it.
  const bool has_samples = source.sample_dims > 0;
  const bool is_copied = has_samples || source.slot_count <= kMostCopiedSlots;
  replace(
      text, "ARGS",
      c10::str("const TslArgs", is_copied ? "" : "&", " known = ", has_samples ? "tsl::of_sample(args)" : "args", ";"));
  replace(text, "ENTRY", source.text.entry);
  replace(text, "VECTORS", source.threads.lanes > 1 ? "TslVectors" : "tsl::NoVectors");
  replace(text, "SHARED", source.threads.shares ? "TslShared" : "tsl::NothingShared");
  replace(text, "REPEATS", std::to_string(source.threads.repeats));
  replace(text, "GROUPS", std::to_string(source.threads.groups()));
  replace(text, "AXIS", std::to_string(source.threads.axis));
  replace(text, "IS_BOUNDED", is_bounded ? "true" : "false");
  replace(text, "BOUNDS", is_bounded ? c10::Join(", ", source.thread_bounds) : "0u, 0u, 0u");
  return text;
}

}  // namespace torch_slang
