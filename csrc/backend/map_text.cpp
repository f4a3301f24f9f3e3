#include "backend/map_text.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "backend/thread_text.h"

namespace torch_slang {
namespace {

using Access = MapView::Access;

std::string field(const MapView& view) { return c10::str("v", view.view); }

// The type of an element's field: that in memory, or that of its sum.
std::string field_type(const MapView& view) {
  const std::string type = c_name_of(view.type);
  const bool is_sum =
      view.access == Access::Summed || view.access == Access::RowSum || view.access == Access::ColumnSum;
  return is_sum ? "tsl::SumOf<" + type + ">" : type;
}

// `of(view)` for each, one after the other.
template <class Of>
std::string each(const std::vector<MapView>& views, Access access, const Of& of) {
  std::string text;
  for (const MapView& view : views) {
    if (view.access == access) text += of(view);
  }
  return text;
}

// `of(component)` for each component of a view.
template <class Of>
std::string each_component(const MapView& view, const Of& of) {
  std::string text;
  for (int c = 0; c < view.components; ++c) text += of(c);
  return text;
}

std::string load_scalars(const MapLoop& map) {
  return each(map.inputs, Access::Scalar, [](const MapView& view) {
    return c10::str("  tsl::load_scalar(args, ", view.view, ", ", view.slot, ", scalars.", field(view), ");\n");
  });
}

}  // namespace

std::string map_members(const MapLoop& map) {
  std::string fields, inputs, outputs;
  for (const MapView& view : map.inputs) {
    fields += c10::str("    ", field_type(view), " ", field(view), "[", view.components, "];\n");
    inputs +=
        c10::str("    if (view == ", view.view, ") return tsl::convert<T>(element.", field(view), "[component]);\n");
  }
  for (const MapView& view : map.outputs) {
    fields += c10::str("    ", field_type(view), " ", field(view), "[", view.components, "];\n");
    outputs += c10::str("    if (view == ", view.view, ") element.", field(view), "[component] = tsl::convert<",
                        field_type(view), ">(value);\n");
  }
  return c10::str("  struct Element {\n", fields, "  };\n  Element element;\n",
                  "  template <class T> TSL_INLINE T tsl_input(int view, int component) const {\n", inputs,
                  "    return T();\n  }\n",
                  "  template <class T> TSL_INLINE void tsl_output(int view, int component, T value) {\n", outputs,
                  "  }\n");
}

namespace {

std::string lanes_of(const MapView& view) {
  return c10::str("    ", c_name_of(view.type), " lanes", view.view, "[kLanes * ", view.components, "];\n");
}

// `name[count] = {}` of the type that the output's sums have.
std::string sums_of(const MapView& view, const char* name, const std::string& count) {
  return c10::str("  ", field_type(view), " ", name, view.view, "[", count, view.components, "] = {};\n");
}

// Runs the function for each lane. `here`: whether the lane is an element, for sums.
std::string run_lanes(const KernelSource& source, const std::string& here) {
  const MapLoop& map = *source.map;
  std::string text = R"(#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      Kernel kernel{{{make_uint3(threadIdx.x, 0, 0), make_uint3(blockIdx.x, 0, 0), make_uint3(blockDim.x, 1, 1),
                      make_uint3(gridDim.x, 1, 1), args}}};
      kernel.element = scalars;
)";
  for (const MapView& view : map.inputs) {
    if (view.access == Access::Scalar) continue;
    text += c10::str("      tsl::copy_components<", view.components, ">(kernel.element.", field(view), ", lanes",
                     view.view, " + lane * ", view.components, ");\n");
  }
  text += "      kernel." + source.text.entry + "();\n";
  const auto add = [&](const MapView& view, const std::string& to) {
    return c10::str("      if (", here, ") tsl::add_components<", view.components, ">(", to, ", kernel.element.",
                    field(view), ");\n");
  };
  for (const MapView& view : map.outputs) {
    switch (view.access) {
      case Access::Summed: text += add(view, c10::str("sum", view.view)); break;
      case Access::RowSum: text += add(view, c10::str("row", view.view)); break;
      case Access::ColumnSum: text += add(view, c10::str("column", view.view, " + lane * ", view.components)); break;
      default:
        text += c10::str("      tsl::copy_components<", view.components, ">(lanes", view.view, " + lane * ",
                         view.components, ", kernel.element.", field(view), ");\n");
    }
  }
  return text + "    }\n";
}

std::string linear_loop(const KernelSource& source) {
  const MapLoop& map = *source.map;
  std::string text = R"(  const ulonglong step = ulonglong(gridDim.x) * blockDim.x * kLanes;
  for (ulonglong first = (ulonglong(blockIdx.x) * blockDim.x + threadIdx.x) * kLanes; first < total; first += step) {
)";
  text += each(map.inputs, Access::Dense, [](const MapView& view) {
    return lanes_of(view) + c10::str("    tsl::load_lanes<kLanes, ", view.components, ">(args.views[", view.view,
                                     "].data, first, total, lanes", view.view, ");\n");
  });
  text += each(map.outputs, Access::Dense, lanes_of);
  text += run_lanes(source, "kLanes == 1 || first + lane < total");
  text += each(map.outputs, Access::Dense, [](const MapView& view) {
    return c10::str("    tsl::store_lanes<kLanes, ", view.components, ">(args.views[", view.view,
                    "].data, first, total, lanes", view.view, ");\n");
  });
  return text + "  }\n";
}

// Threads that have no element go along with the first one's values: waves sum together.
std::string tiled_loop(const KernelSource& source) {
  const MapLoop& map = *source.map;
  std::string text = "  const tsl::MapTile tile(args, kLanes);\n";
  text +=
      each(map.outputs, Access::ColumnSum, [](const MapView& view) { return sums_of(view, "column", "kLanes * "); });
  text += R"(#pragma unroll 1
  for (uint k = 0; k < tile.rows_each; ++k) {
    const ulonglong own_row = tile.first_row + ulonglong(k) * tile.rows_at_once;
    const bool here = own_row < tile.rows && tile.column < tile.columns;
    const ulonglong row = here ? own_row : 0;
    const uint column = here ? tile.column : 0u;
    const tsl::MapPlace place(args, row, tsl::map_rank(args) - 1);
)";
  const auto load = [&](Access access, const char* name, const std::string& more) {
    return each(map.inputs, access, [&](const MapView& view) {
      const std::string stride = access == Access::Strided ? c10::str(", tsl::row_stride(args, ", view.view, ")") : "";
      return lanes_of(view) + c10::str("    tsl::", name, "<kLanes, ", view.components, ">(args.views[", view.view,
                                       "], place", more, stride, ", lanes", view.view, ");\n");
    });
  };
  text += load(Access::Row, "load_row", ", column") + load(Access::Column, "load_column", "") +
          load(Access::Strided, "load_strided", ", column");
  text += each(map.outputs, Access::Dense, lanes_of);
  text += each(map.outputs, Access::RowSum, [](const MapView& view) { return sums_of(view, "row", ""); });
  text += run_lanes(source, "here");
  text += "    if (here) {\n      const ulonglong first = row * tile.columns + column;\n";
  text += each(map.outputs, Access::Dense, [](const MapView& view) {
    return c10::str("      tsl::store_lanes<kLanes, ", view.components, ">(args.views[", view.view,
                    "].data, first, first + kLanes, lanes", view.view, ");\n");
  });
  text += "    }\n";
  text += each(map.outputs, Access::RowSum, [](const MapView& view) {
    return c10::str("    tsl::store_row_sum<", view.components, ">(args.views[", view.view,
                    "].data, args, tile, own_row, row", view.view, ");\n");
  });
  text += "  }\n";
  return text + each(map.outputs, Access::ColumnSum, [](const MapView& view) {
           return c10::str("  tsl::store_column_sums<", kMapThreads, ", kLanes, ", view.components, ">(args.views[",
                           view.view, "].data, tile, column", view.view, ");\n");
         });
}

}  // namespace

std::string cuda_map_launcher(const KernelSource& source) {
  const MapLoop& map = *source.map;
  std::string text = c10::str("extern \"C\" __global__ void __launch_bounds__(", kMapThreads, ") ", R"(
tsl_entry(const __grid_constant__ TslArgs args) {
  tsl::mark_control();
  constexpr int kLanes = )",
                              map.lanes, R"(;
  const ulonglong total = tsl::map_total(args);
  Kernel::Element scalars;
)");
  text += load_scalars(map);
  text += each(map.outputs, Access::Summed, [](const MapView& view) { return sums_of(view, "sum", ""); });
  text += map.is_tiled ? tiled_loop(source) : linear_loop(source);
  text += each(map.outputs, Access::Summed, [](const MapView& view) {
    return c10::str("  tsl::store_block_sum<", kMapThreads, ", ", view.components, ">(args.views[", view.view,
                    "].data, sum", view.view, ");\n");
  });
  return text + "}\n";
}

// The loop over elements must look like any other to vectorise: sums of floats, which may not be reordered, would stand in
// its way. So it stores what is to be summed, for a slice of elements, and a plain loop adds the slice up, in double.
constexpr int kSlice = 256;

std::string host_map_launcher(const KernelSource& source) {
  const MapLoop& map = *source.map;
  const auto pointer = [](const MapView& view, const char* qualifier) {
    const std::string type = c10::str(qualifier, c_name_of(view.type), "*");
    return c10::str("      ", type, " const p", view.view, " = reinterpret_cast<", type, ">(args.views[", view.view,
                    "].data) + i * ", view.components, ";\n");
  };
  // `of(name of one component's sum, component)` for all sums.
  const auto each_sum = [&](const auto& of) {
    return each(map.outputs, Access::Summed, [&](const MapView& view) {
      return each_component(view, [&](int c) { return of(c10::str("sum", view.view, "_", c), view, c); });
    });
  };
  std::string text = c10::str(
      R"(extern "C" __attribute__((visibility("default"))) void tsl_run_blocks(const void* given, unsigned long long block,
                                                                       unsigned long long last) {
  tsl::mark_control();
  const TslArgs args = *static_cast<const TslArgs*>(given);
  const ulonglong total = tsl::map_total(args);
  Kernel::Element scalars;
)",
      load_scalars(map), "  for (; block < last && !TSL_STOPPED(args); ++block) {\n    ulonglong i = block * ",
      kMapElements, ";\n    const ulonglong end = total - i < ", kMapElements, " ? total : i + ", kMapElements, ";\n");
  text +=
      each_sum([](const std::string& name, const MapView&, int) { return c10::str("    double ", name, " = 0;\n"); });
  text += "    while (i < end) {\n      longlong count = longlong(end - i);\n";
  if (map.is_tiled) {
    text += R"(      const uint length = tsl::row_length(args), column = uint(i % length);
      const tsl::MapPlace place(args, i / length, tsl::map_rank(args) - 1);
      if (const longlong left = length - column; left < count) count = left;
)";
  }
  const std::string sums = each_sum([](const std::string& name, const MapView& view, int) {
    return c10::str("      ", field_type(view), " slice_", name, "[", kSlice, "];\n");
  });
  if (!sums.empty()) text += c10::str("      if (count > ", kSlice, ") count = ", kSlice, ";\n", sums);
  text += each(map.inputs, Access::Dense, [&](const MapView& view) { return pointer(view, "const "); });
  text += each(map.outputs, Access::Dense, [&](const MapView& view) { return pointer(view, ""); });
  // Where a row's elements are: p, and s bytes from one to the next.
  for (const MapView& view : map.inputs) {
    if (view.access != Access::Row && view.access != Access::Column && view.access != Access::Strided) continue;
    const std::string type = c10::str("const ", c_name_of(view.type), "*");
    const std::string row = c10::str("args.views[", view.view, "].data + place.offset(args.views[", view.view, "])");
    if (view.access == Access::Strided) {
      text += c10::str("      const longlong s", view.view, " = tsl::row_stride(args, ", view.view, ");\n",
                       "      const uchar* const p", view.view, " = ", row, " + column * s", view.view, ";\n");
    } else if (view.access == Access::Row) {
      text += c10::str("      ", type, " const p", view.view, " = reinterpret_cast<", type, ">(", row,
                       ") + ulonglong(column) * ", view.components, ";\n");
    } else {
      text += each_component(view, [&](int c) {
        return c10::str("      scalars.", field(view), "[", c, "] = reinterpret_cast<", type, ">(", row, ")[", c,
                        "];\n");
      });
    }
  }
  text += R"(      TSL_INDEPENDENT_THREADS
      for (longlong j = 0; j < count; ++j) {
        Kernel kernel{{{uint3{0, 0, 0}, uint3{0, 0, 0}, uint3{1, 1, 1}, uint3{1, 1, 1}, args}}};
        kernel.element = scalars;
)";
  const auto take = [&](const MapView& view) {
    return each_component(view, [&](int c) {
      return c10::str("        kernel.element.", field(view), "[", c, "] = p", view.view, "[j * ", view.components,
                      " + ", c, "];\n");
    });
  };
  text += each(map.inputs, Access::Dense, take) + each(map.inputs, Access::Row, take);
  text += each(map.inputs, Access::Strided, [&](const MapView& view) {
    return each_component(view, [&](int c) {
      return c10::str("        kernel.element.", field(view), "[", c, "] = reinterpret_cast<const ",
                      c_name_of(view.type), "*>(p", view.view, " + j * s", view.view, ")[", c, "];\n");
    });
  });
  text += "        kernel." + source.text.entry + "();\n";
  text += each(map.outputs, Access::Dense, [&](const MapView& view) {
    return each_component(view, [&](int c) {
      return c10::str("        p", view.view, "[j * ", view.components, " + ", c, "] = kernel.element.", field(view),
                      "[", c, "];\n");
    });
  });
  text += each_sum([](const std::string& name, const MapView& view, int c) {
    return c10::str("        slice_", name, "[j] = kernel.element.", field(view), "[", c, "];\n");
  });
  text += "      }\n";
  text += each_sum([](const std::string& name, const MapView&, int) {
    return c10::str("#pragma omp simd reduction(+ : ", name, ")\n      for (longlong j = 0; j < count; ++j) ", name,
                    " += slice_", name, "[j];\n");
  });
  text += "      i += count;\n    }\n";
  text += each_sum([](const std::string& name, const MapView& view, int c) {
    return c10::str("    reinterpret_cast<", field_type(view), "*>(args.views[", view.view, "].data)[block * ",
                    view.components, " + ", c, "] = ", field_type(view), "(", name, ");\n");
  });
  return text + "  }\n}\n";
}

}  // namespace torch_slang
