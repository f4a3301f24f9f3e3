#include "source/thread_text.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace torch_slang {
namespace {

using Kept = ThreadView::Kept;

bool is_gradient(const ThreadView& view) { return view.kept == Kept::Given || view.kept == Kept::Result; }

std::string name_of(const ThreadView& view) { return c10::str("v", view.view); }

const char* spelled(bool value) { return value ? "true" : "false"; }

// What the templates of prelude/own.h and prelude/vector_access.h take: `<3, float, 1, tsl::OwnDims<tsl::LaunchDim<0>>`, a flag and `>`.
std::string arguments_of(const ThreadView& view, const std::string& flag = "") {
  std::string dims;
  for (const ShareDim& dim : view.dims) {
    dims += dims.empty() ? "" : ", ";
    dims += dim.axis >= 0    ? c10::str("tsl::LaunchDim<", dim.axis, ">")
            : dim.place >= 0 ? c10::str("tsl::PlaceDim<", dim.place, ">")
                             : c10::str("tsl::FreeDim<", dim.size, ">");
  }
  return c10::str("<", view.view, ", ", c_name_of(view.type), ", ", view.components, ", tsl::OwnDims<", dims, ">",
                  flag.empty() ? "" : ", ", flag, ">");
}

std::string piece_of(const ThreadView& view) {
  if (view.kept == Kept::Summed) return "tsl::SumPiece" + arguments_of(view);
  if (view.kept == Kept::Output) return "tsl::OutputPiece" + arguments_of(view);
  if (view.kept == Kept::Input) return "tsl::InputPiece" + arguments_of(view, spelled(view.serves_neighbours));
  return "tsl::GradientPiece" + arguments_of(view, spelled(view.kept == Kept::Given));
}

std::string shared_struct(const std::vector<ThreadView>& views) {
  std::string members, end;
  for (const ThreadView& view : views) {
    if (view.kept != Kept::Shared) continue;
    members +=
        c10::str("  tsl::SharedGradient", arguments_of(view, spelled(view.is_replicated)), " ", name_of(view), ";\n");
    end += c10::str(" ", name_of(view), ".end(first);");
  }
  return c10::str("struct TslShared {\n", members,
                  "  template <class Thread> TSL_INLINE void end(const Thread& first) {", end, " }\n};\n");
}

std::string few_struct(const std::vector<ThreadView>& views) {
  std::string members, end;
  for (const ThreadView& view : views) {
    if (view.kept != Kept::Few) continue;
    members += c10::str("  tsl::FewGradients<", view.view, ", ", c_name_of(view.type), ", ", view.components, ", ",
                        view.numbers, ", ", spelled(view.is_replicated), "> ", name_of(view), ";\n");
    end += c10::str(" ", name_of(view), ".end(args, block);");
  }
  return c10::str("struct TslShared {\n", members,
                  "  TSL_INLINE void end(const TslArgs& args, unsigned long long block) {", end, " }\n};\n");
}

// A function that passes additions to the sums that collect them first.
std::string adding_function(const std::vector<ThreadView>& views) {
  std::string cases;
  for (const ThreadView& view : views) {
    const bool is_shared = view.kept == Kept::Shared || view.kept == Kept::Few;
    const char* place = is_shared ? "shared" : view.kept == Kept::Summed ? "vectors" : nullptr;
    if (place == nullptr) continue;
    cases += c10::str("  if (view == ", view.view, ") return thread.", place, " != nullptr && thread.", place, "->",
                      name_of(view), ".add(thread, amount, index);\n");
  }
  return c10::str(
      "template <class Thread, class Index, class T>\n"
      "TSL_INLINE bool tsl_add_first(const Thread& thread, int view, Index index, T amount) {\n",
      cases, "  return false;\n}\n");
}

std::string own_struct(const std::vector<ThreadView>& views) {
  std::string members, begin, end, has, each;
  for (const ThreadView& view : views) {
    if (!is_gradient(view)) continue;
    const std::string name = name_of(view);
    const std::string piece = view.in_vectors ? ", &TslVectors::" + name : "";
    members += c10::str("  tsl::OwnGradient", arguments_of(view, spelled(view.kept == Kept::Given)), " ", name, ";\n");
    begin += c10::str(" ", name, ".begin(thread", piece, ");");
    end += c10::str(" ", name, ".end(thread", piece, ");");
    has += c10::str(has.empty() ? "" : " || ", "view == ", view.view);
    each += c10::str("    if (view == ", view.view, ") return ", name, ".each(thread, value, f, index);\n");
  }
  if (members.empty()) return "using Own = tsl::NothingOwn;\n";
  return c10::str("struct Own {\n  static constexpr bool kHasAny = true;\n", members,
                  "  template <class Thread> TSL_INLINE void begin(const Thread& thread) {", begin,
                  " }\n  template <class Thread> TSL_INLINE void end(const Thread& thread) const {", end,
                  " }\n  static TSL_INLINE bool has(int view) { return ", has,
                  "; }\n  template <class Thread, class T, class F, class Index>\n"
                  "  TSL_INLINE bool each(int view, const Thread& thread, T& value, F f, Index index) {\n",
                  each, "    return false;\n  }\n};\n");
}

// A function that asks the vectors of the view, if it has some.
std::string vector_function(const char* name, const char* value_type, const std::string& cases) {
  return c10::str("template <class T, class... Index>\nTSL_INLINE bool tsl_", name,
                  "_vector(int view, tsl::VectorLane lane, ", value_type,
                  " value, Index... index) {\n  return tsl::with_index([&](auto... at) TSL_INLINE_LAMBDA {\n", cases,
                  "    return false;\n  }, index...);\n}\n");
}

std::string vectors_struct(const std::vector<ThreadView>& views) {
  std::string members, begin, end, load, store;
  for (const ThreadView& view : views) {
    if (!view.in_vectors) continue;
    const std::string name = name_of(view);
    const auto ask = [&](const char* function) {
      return c10::str("    if (view == ", view.view, ") return lane.vectors->", name, ".", function,
                      "(lane, value, at...);\n");
    };
    members += c10::str("  ", piece_of(view), " ", name, ";\n");
    begin += c10::str(" ", name, ".begin(first);");
    end += c10::str(" ", name, ".end(first);");
    if (view.kept == Kept::Input || view.kept == Kept::Output) load += ask("load");
    if (view.kept == Kept::Output) store += ask("store");
  }
  return c10::str("struct TslVectors {\n", members,
                  "  template <class Thread> TSL_INLINE void begin(const Thread& first) {", begin,
                  " }\n  template <class Thread> TSL_INLINE void end(const Thread& first) const {", end, " }\n};\n",
                  vector_function("load", "T&", load), vector_function("store", "T", store));
}

}  // namespace

const char* c_name_of(ElementType type) {
  switch (type) {
    case ElementType::Float16: return "__half";
    case ElementType::BFloat16: return "__nv_bfloat16";
    case ElementType::Float32: return "float";
    case ElementType::Float64: return "double";
    case ElementType::Int8: return "int8_t";
    case ElementType::Int16: return "int16_t";
    case ElementType::Int32: return "int32_t";
    case ElementType::Int64: return "longlong";
    case ElementType::UInt8: return "uint8_t";
    case ElementType::UInt16: return "uint16_t";
    case ElementType::UInt32: return "uint32_t";
    case ElementType::UInt64: return "ulonglong";
    case ElementType::Bool: return "bool";
  }
  return "";
}

bool has_few_elements(const std::vector<ThreadView>& views) {
  return std::any_of(views.begin(), views.end(), [](const ThreadView& view) { return view.kept == Kept::Few; });
}

std::string thread_text(const std::vector<ThreadView>& views, const VirtualThreads& threads) {
  const bool has_few = has_few_elements(views);
  return (threads.lanes > 1 ? vectors_struct(views) : "") + (threads.shares ? shared_struct(views) : "") +
         (has_few ? few_struct(views) : "") +
         (threads.lanes > 1 || threads.shares || has_few ? adding_function(views) : "") + own_struct(views);
}

}  // namespace torch_slang
