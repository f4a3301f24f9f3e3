// Names of the prelude that the run-time must know a device text to use. torch-slangc looks for them among the text's
// tokens, once, and writes those that it finds into DeviceText::uses: nothing else looks inside a text.
#pragma once

#include <initializer_list>
#include <string_view>

#include "program/program.h"

namespace torch_slang {

namespace intrinsics {

// Methods of views that give addresses.
inline constexpr std::string_view kDataPointer = "data_ptr", kDataPointerAt = "data_ptr_at";
// What the checks of prelude/division.h, local_index.h and polls.h stand behind.
inline constexpr std::string_view kDivide = "TSL_DIVIDE", kRemainder = "TSL_REMAINDER", kIterate = "TSL_ITERATE",
                                  kIndex = "TSL_INDEX", kVectorElement = "_slang_vector_get_element",
                                  kVectorElementPointer = "_slang_vector_get_element_ptr";
// Gradients: of values, and added by threads that meet at one element.
inline constexpr std::string_view kValueGradient = "tsl_gradient", kAccumulateFixed = "tsl_accumulate_fixed";
// Gradients that are added to by any threads, and runs of such additions: Note [wave sums] in prelude/wave_sums.h.
inline constexpr std::string_view kAccumulate = "tsl_accumulate", kSumsBegin = "TSL_SUMS_BEGIN",
                                  kSumsBeginBeside = "TSL_SUMS_BEGIN_BESIDE";
// Additions of the user's own: compiler/emit/unread_additions.h.
inline constexpr std::string_view kAddOnly = "tsl_add_only";
// Gradients that are taken from where they are added to.
inline constexpr std::string_view kTake = "tsl_take", kTakeUniform = "tsl_take_uniform", kTakeOnce = "tsl_take_once";
// What mma.slang calls.
inline constexpr std::string_view kMultiply = "tsl_multiply", kMultiplyPart = "tsl_multiply_part",
                                  kMultiplyBlocks = "tsl_multiply_blocks", kMultiplyLines = "tsl_multiply_lines",
                                  kMultiplyGathered = "tsl_multiply_gathered";
// Types of 16 bits. Each stands for all names that begin with it, those of its vectors and functions.
inline constexpr std::string_view kHalf = "__half", kBFloat16 = "__nv_bfloat16";

inline constexpr std::string_view kNames[] = {kDataPointer,      kDataPointerAt,   kDivide,
                                              kRemainder,        kIterate,         kIndex,
                                              kVectorElement,    kMultiply,        kMultiplyPart,
                                              kMultiplyBlocks,   kMultiplyLines,   kValueGradient,
                                              kMultiplyGathered, kAccumulateFixed, kVectorElementPointer,
                                              kAccumulate,       kSumsBegin,       kTake,
                                              kTakeUniform,      kTakeOnce,        kAddOnly,
                                              kSumsBeginBeside};
inline constexpr std::string_view kFamilies[] = {kHalf, kBFloat16};

}  // namespace intrinsics

// Whether the text uses any of the names.
inline bool uses(const DeviceText& text, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (text.uses.find(name) != text.uses.end()) return true;
  }
  return false;
}
// Whether there are runs of additions: compiler/emit/addition_runs.h.
inline bool has_runs(const DeviceText& text) {
  return uses(text, {intrinsics::kSumsBegin, intrinsics::kSumsBeginBeside});
}

}  // namespace torch_slang
