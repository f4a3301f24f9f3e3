#include "source/map_text.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include "source/thread_text.h"

namespace torch_slang {
namespace {

const char* name_of(MapView::Access access) {
  using Access = MapView::Access;
  switch (access) {
    case Access::Dense: return "Dense";
    case Access::Scalar: return "Scalar";
    case Access::Row: return "Row";
    case Access::Column: return "Column";
    case Access::Strided: return "Strided";
    case Access::Place: return "Place";
    case Access::Hash: return "Hash";
    case Access::Random: return "Random";
    case Access::Summed: return "Summed";
    case Access::RowSum: return "RowSum";
    case Access::ColumnSum: return "ColumnSum";
  }
  TORCH_INTERNAL_ASSERT(false);
}

std::string types_of(const std::vector<MapView>& views) {
  std::string text;
  for (const MapView& view : views) {
    text += c10::str(text.empty() ? "" : ", ", "tsl::MapView<", view.view, ", ", c_name_of(view.type), ", ",
                     view.components, ", tsl::MapAccess::", name_of(view.access), ", ", view.slot,
                     view.is_value ? ", true>" : ">");
  }
  return "tsl::MapViews<" + text + ">";
}

// The arguments of tsl::run_map that both targets have.
std::string loop_of(const KernelSource& source) {
  return c10::str("tsl::run_map<Kernel, &Kernel::", source.text.entry, ", TslInputs, TslOutputs, ",
                  source.map->is_tiled ? "true" : "false", ", ");
}

}  // namespace

std::string map_types(const MapLoop& map) {
  std::string places;
  for (size_t i = 0; i < map.places.size(); ++i) {
    const MapPlace& place = map.places[i];
    places += c10::str("  kernel.places[", i, "] = kernel.template tsl_input<uint>(", place.view, ", ", place.component,
                       ");\n");
  }
  if (!places.empty())
    places = "template <class Kernel> TSL_INLINE void tsl_set_places(Kernel& kernel) {\n" + places + "}\n";
  return c10::str("using TslInputs = ", types_of(map.inputs), ";\nusing TslOutputs = ", types_of(map.outputs), ";\n",
                  places);
}

std::string cuda_map_launcher(const KernelSource& source) {
  return c10::str("extern \"C\" __global__ void __launch_bounds__(", kMapThreads,
                  ") tsl_entry(const __grid_constant__ TslArgs args) {\n  tsl::mark_control();\n  ", loop_of(source),
                  source.map->lanes, ", ", kMapThreads, ">(args);\n}\n");
}

std::string host_map_launcher(const KernelSource& source) {
  return c10::str(
      R"(extern "C" __attribute__((visibility("default"))) TSL_ROOT void tsl_run_blocks(const void* given, unsigned long long first,
                                                                                unsigned long long last) {
  tsl::mark_control();
  const TslArgs args = *static_cast<const TslArgs*>(given);
  const tsl::ThreadRow row{static_cast<const TslArgs*>(given)};
  )",
      loop_of(source), kMapElements, ">(args, row, first, last);\n}\n");
}

}  // namespace torch_slang
