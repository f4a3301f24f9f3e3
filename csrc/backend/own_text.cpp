#include "backend/own_text.h"

#include <c10/util/StringUtil.h>

namespace torch_slang {
namespace {

std::string type_of(const OwnGradient& gradient) {
  std::string dims;
  for (const OwnGradient::Dim& dim : gradient.dims) {
    dims += dims.empty() ? "" : ", ";
    dims += dim.axis >= 0 ? c10::str("tsl::LaunchDim<", dim.axis, ">") : c10::str("tsl::FreeDim<", dim.size, ">");
  }
  return c10::str("tsl::OwnGradient<", gradient.view, ", ", c_name_of(gradient.type), ", ", gradient.components, ", ",
                  gradient.is_given ? "true" : "false", ", tsl::OwnDims<", dims, ">>");
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

std::string own_text(const std::vector<OwnGradient>& gradients) {
  if (gradients.empty()) return "using Own = tsl::NothingOwn;\n";
  std::string members, begin, end, has, each;
  for (const OwnGradient& gradient : gradients) {
    const std::string name = c10::str("v", gradient.view);
    members += c10::str("  ", type_of(gradient), " ", name, ";\n");
    begin += c10::str(" ", name, ".begin(thread);");
    end += c10::str(" ", name, ".end(thread);");
    has += c10::str(has.empty() ? "" : " || ", "view == ", gradient.view);
    each += c10::str("    if (view == ", gradient.view, ") return ", name, ".each(thread, value, f, index);\n");
  }
  return c10::str("struct Own {\n", members, "  template <class Thread> TSL_INLINE void begin(const Thread& thread) {",
                  begin, " }\n  template <class Thread> TSL_INLINE void end(const Thread& thread) const {", end,
                  " }\n  static TSL_INLINE bool has(int view) { return ", has,
                  "; }\n  template <class Thread, class T, class F, class Index>\n"
                  "  TSL_INLINE bool each(int view, const Thread& thread, T& value, F f, Index index) {\n",
                  each, "    return false;\n  }\n};\n");
}

}  // namespace torch_slang
