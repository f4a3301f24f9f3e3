#include "device_compilers/nvrtc/launcher_text.h"

#include <c10/util/StringUtil.h>

#include "source/map_text.h"
#include "source/source_text.h"

namespace torch_slang {
namespace {

constexpr const char* kEntry = " tsl_entry(const __grid_constant__ TslArgs args) {\n  tsl::mark_control();\n  ";

// Values are read in loops if there are many, which would keep a copy in memory.
constexpr int kMostCopiedSlots = 64;

}  // namespace

std::string cuda_launcher(const KernelSource& source) {
  if (source.map) return cuda_map_launcher(source);
  constexpr const char* kGlobal = "extern \"C\" __global__ void ";
  const std::string entry = "Kernel, &Kernel::" + source.text.entry;
  if (multiplies(source)) {
    return c10::str(kGlobal, "__launch_bounds__(tsl::kTileThreads)", kEntry, "tsl::run_matrix_tiles<", entry,
                    ">(args);\n}\n");
  }
  const uint32_t threads = source.block[0] * source.block[1] * source.block[2];
  // Of a copy in registers compilers know that no store of the kernel's changes it.
  const bool has_samples = source.sample_dims > 0;
  const bool is_copied = has_samples || source.slot_count <= kMostCopiedSlots;
  const bool is_bounded = !source.thread_bounds.empty();
  return c10::str(kGlobal, threads > 0 ? c10::str("__launch_bounds__(", threads, ")") : "", kEntry, "const TslArgs",
                  is_copied ? "" : "&", " known = ", has_samples ? "tsl::of_sample(args)" : "args",
                  ";\n  tsl::run_tiles<", entry, ", ", source.threads.lanes > 1 ? "TslVectors" : "tsl::NoVectors", ", ",
                  source.threads.shares ? "TslShared" : "tsl::NothingShared", ", tsl::TileShape<",
                  source.threads.groups(), ", ", source.threads.axis, ", ", source.threads.repeats, ">, ",
                  is_bounded ? "true" : "false", ">(known, uint3{",
                  is_bounded ? c10::Join(", ", source.thread_bounds) : "0u, 0u, 0u", "});\n}\n");
}

}  // namespace torch_slang
