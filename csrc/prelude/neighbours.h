// Neighbouring numbers that a thread adds to one after the other are added together.
//
// Note [neighbours]
//   A thread often adds to numbers that lie beside each other: the coordinates of a place, the coefficients of a Gaussian's
//   colour. On Hopper one instruction adds two numbers of eight aligned bytes, and takes as long as for one. So in straight-line code (the runs
//   of compiler/emit/addition_runs.h) a number waits for the next addition: where that is its pair, both are added
//   at once, in whichever order they came. Nothing branches: which of the additions are made is a predicate of theirs, since lanes
//   whose rows begin elsewhere pair other numbers.
//   A kernel that reads a gradient which it adds to does not wait (load_kernel.cpp sees to it).
#pragma once

#include "prelude/types.h"

#if TSL_NEIGHBOURS && TSL_CUDA && __CUDA_ARCH__ >= 900

namespace tsl {

class Neighbours {
 public:
  TSL_INLINE bool are_open() const { return is_open_; }
  // A run of so many numbers.
  template <int kCount> TSL_INLINE void begin() { is_open_ = kCount > 1; }
  TSL_INLINE void end() {
    if (!is_open_) return;
    asm volatile("{ .reg .pred waits; setp.ne.u64 waits, %0, 0; @waits red.relaxed.gpu.global.add.f32 [%0], %1; }" ::"l"(waiting_),
                 "f"(amount_) : "memory");
    waiting_ = 0;
    is_open_ = false;
  }
  // `place`: null if nobody wants the gradient. All in one piece, which costs compilers little where there are fifty additions.
  TSL_INLINE void add(float* place, float amount) {
    const ulonglong address = place == nullptr ? 0 : __cvta_generic_to_global(place);
    asm volatile(
        "{ .reg .pred is_pair, is_alone, is_second; .reg .b64 bits, first; .reg .f32 x, y;\n"
        "  xor.b64 bits, %0, %2;\n"
        "  setp.eq.u64 is_pair, bits, 4;\n"
        "  setp.ne.and.u64 is_alone, %0, 0, !is_pair;\n"
        "  @is_alone red.relaxed.gpu.global.add.f32 [%0], %1;\n"
        "  and.b64 bits, %2, 4;\n"
        "  setp.ne.u64 is_second, bits, 0;\n"
        "  selp.b64 first, %0, %2, is_second;\n"
        "  selp.f32 x, %1, %3, is_second;\n"
        "  selp.f32 y, %3, %1, is_second;\n"
        "  @is_pair red.relaxed.gpu.global.add.v2.f32 [first], {x, y};\n"
        "  selp.b64 %0, 0, %2, is_pair;\n"
        "  mov.f32 %1, %3; }"
        : "+l"(waiting_), "+f"(amount_) : "l"(address), "f"(amount) : "memory");
  }

 private:
  bool is_open_ = false;
  ulonglong waiting_ = 0;  // where the number that waits belongs in global memory; 0: none does
  float amount_ = 0.0f;
};

}  // namespace tsl

#else

namespace tsl {
struct Neighbours {
  static TSL_INLINE bool are_open() { return false; }
  template <int kCount> static TSL_INLINE void begin() {}
  static TSL_INLINE void end() {}
  static TSL_INLINE void add(float*, float) {}
};
}  // namespace tsl

#endif
