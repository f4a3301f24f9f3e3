#include "device_compilers/host/launcher_text.h"

#include <c10/util/StringUtil.h>

#include "source/map_text.h"
#include "source/source_text.h"

namespace torch_slang {
namespace {

constexpr const char* kExport = "extern \"C\" __attribute__((visibility(\"default\"))) TSL_ROOT ";

// A block's index is counted up rather than divided out: blocks may be a few threads wide.
constexpr const char* kRunBlocksText = R"((const void* block, unsigned long long first, unsigned long long last) {
  tsl::mark_control();
  const TslArgs& given = *static_cast<const TslArgs*>(block);
  TslArgs args = given, apart = given;
  tsl::mark_uses(args);
  tsl::mark_uses(apart);
  const uint3 grid{args.header.grid[0], args.header.grid[1], args.header.grid[2]};
  const uint3 bounds{TSL_BOUNDS};
  const unsigned long long rows = first / grid.x;
  uint3 index{uint(first % grid.x), uint(rows % grid.y), uint(rows / grid.y)};
  for (; first < last && !TSL_STOPPED(args); ++first) {
    TSL_RUN_BLOCK;
    if (++index.x < grid.x) continue;
    index.x = 0;
    if (++index.y < grid.y) continue;
    index.y = 0;
    ++index.z;
  }
}
)";

constexpr const char* kRunThreadText =
    R"((const void* block, TslHostThread* self, const unsigned* block_index, const unsigned* thread_index) {
  tsl::mark_control();
  tsl::run_thread<Kernel, &Kernel::TSL_ENTRY>(*static_cast<const TslArgs*>(block), self, uint3{block_index[0], block_index[1], block_index[2]},
                                              uint3{thread_index[0], thread_index[1], thread_index[2]});
}
)";

// Note [host loop] in prelude/host_loop.h.
bool is_apart(const KernelSource& source) {
  constexpr size_t kMostTextTogether = 48 << 10;
  return source.thread_bounds.empty() || source.text.body.size() > kMostTextTogether;
}

}  // namespace

bool threads_meet(const KernelSource& source) { return source.text.barriers || source.text.waves; }

std::string host_launcher_text(const KernelSource& source) {
  if (source.map) return host_map_launcher(source);
  std::string text = "#define TSL_ENTRY " + source.text.entry + "\n";
  text += multiplies(source)
              ? "#define TSL_RUN_BLOCK tsl::run_matrix_block<Kernel, &Kernel::TSL_ENTRY>(args, given, index)\n"
              : "#define TSL_RUN_BLOCK tsl::run_block<Kernel, &Kernel::TSL_ENTRY, TSL_IS_BOUNDED, TSL_IS_APART>(args, "
                "apart, given, index, bounds)\n";
  if (threads_meet(source)) return text + kExport + "void " + kRunThread + kRunThreadText;
  text += "#define TSL_BOUNDS " + c10::Join(", ", source.thread_bounds) + "\n#define TSL_IS_BOUNDED " +
          (source.thread_bounds.empty() ? "false" : "true") + "\n#define TSL_IS_APART " +
          (is_apart(source) ? "true" : "false") + "\n";
  return text + kExport + "void " + kRunBlocks + kRunBlocksText;
}

}  // namespace torch_slang
