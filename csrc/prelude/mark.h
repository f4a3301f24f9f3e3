// Note [marks]
//   A mark is a short string, `tsl-mark:reads 3;`, that stands in the compiled binary (host: a section of its own in the
//   .so) or in the PTX (CUDA) exactly if the compiler did not eliminate the code that leaves it. The run-time searches
//   for marks (find_marks in source/marks.h) and so learns what a kernel does after all folding. They cost nothing when
//   the kernel runs. `control` stands in code that is always reached: if it is not found, marks are not visible with
//   this compiler, and the run-time assumes that every mark is present.
//
//   A *read* of an absent view matters only if its value does. So the mark hangs on a zero that the compiler cannot see
//   through: an unused value takes its mark with it. A *write* is an effect and stays wherever it can be reached. A *use*
//   of a present view hangs on its address in the same way: `uses 3` is missing where nothing is loaded from view 3 or
//   stored to it. Effects on gradients: `takes 3`, some of gradient view 3 is taken from it and gone, or (replicated and
//   recorded ones) has to be there; `adds 3`, it is added to atomically, in place or in replicas; `shares 3`, a thread reaches
//   elements that may not be its own (Note [own elements] in own.h); `promises 3`, in debug mode, an access to it promises to
//   be alone. `dynamic 3`: Note [vector accesses] in vector_access.h. `rank 3`: the kernel uses the view as matrices, but it may
//   not have two or three dimensions.
#pragma once

#include "target.h"

// Note [numbers in marks]
//   A view's number is an operand of its mark. (A test of the number against each view's in turn, with a mark of its own, took most of
//   the compile time where there are hundreds of accesses.) On the host it is a constant once everything is inlined; if not, the
//   assembler writes a register's name into the mark, and source/marks.cpp counts it as a mark of every view. In PTX there
//   always stands a register, "shares %r7", and the text shows which numbers it is given: source/marks.cpp reads them.
#define TSL_MARK_VIEW(operand) "%" #operand
#if TSL_CUDA
#define TSL_MARK_ASM(mark) "// tsl-mark:" mark ";"
#define TSL_MARK_ADDRESS "+l"
#define TSL_MARK_OPERAND "r"
#else
#define TSL_MARK_ASM(mark) ".pushsection .tsl_marks,\"\",@progbits\n\t.ascii \"tsl-mark:" mark ";\"\n\t.popsection"
#define TSL_MARK_ADDRESS "+r"
#define TSL_MARK_OPERAND "ri"
#endif

namespace tsl {

TSL_INLINE unsigned marked_zero(int view) {
  unsigned zero = 0;
  asm(TSL_MARK_ASM("reads " TSL_MARK_VIEW(1)) : "+r"(zero) : TSL_MARK_OPERAND(view));
  return zero;
}

// An effect on view number `which`.
#define TSL_MARK_EFFECT(name, word)                                             \
  TSL_INLINE void name(int which) {                                             \
    asm volatile(TSL_MARK_ASM(word " " TSL_MARK_VIEW(0)) : : TSL_MARK_OPERAND(which)); \
  }
TSL_MARK_EFFECT(mark_write, "writes")
TSL_MARK_EFFECT(mark_take, "takes")
TSL_MARK_EFFECT(mark_promise, "promises")
TSL_MARK_EFFECT(mark_retype, "retypes")
TSL_MARK_EFFECT(mark_add, "adds")
TSL_MARK_EFFECT(mark_share, "shares")
TSL_MARK_EFFECT(mark_dynamic, "dynamic")
TSL_MARK_EFFECT(mark_rank, "rank")
#undef TSL_MARK_EFFECT

// Of a source that is compiled to learn where: `shares 3 at 0:17` for each statement that it may be, TSL_SITES(X) being
// X(file, line) of all statements.
#if TSL_LOCATE
TSL_INLINE void mark_share_at(int which, unsigned long long at) {
#define TSL_SITE(file, line)                   \
  if (at == ((unsigned long long)file << 32 | line)) \
    asm volatile(TSL_MARK_ASM("shares " TSL_MARK_VIEW(0) " at " #file ":" #line) : : TSL_MARK_OPERAND(which));
  TSL_SITES(TSL_SITE)
#undef TSL_SITE
}
#endif

// What a load from the absent view gives: zero of any type, with the mark `reads <view>` for as long as the value is used.
template <class T>
TSL_INLINE T marked_absent_value(int view) {
  const unsigned zero = marked_zero(view);
  T value;
  if constexpr (sizeof(T) == sizeof zero) {
    TSL_COPY(&value, &zero, sizeof(T));
  } else {
    unsigned char bytes[sizeof(T)];
    for (unsigned i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<unsigned char>(zero);
    TSL_COPY(&value, bytes, sizeof(T));
  }
  return value;
}

TSL_INLINE unsigned char* mark_use(int view, unsigned char* address) {
  asm(TSL_MARK_ASM("uses " TSL_MARK_VIEW(1)) : TSL_MARK_ADDRESS(address) : TSL_MARK_OPERAND(view));
  return address;
}

// The uses of all views at once, for a launcher with an argument block of its own.
template <int kView = 0, class Args>
TSL_INLINE void mark_uses(Args& args) {
  if constexpr (kView < TSL_VIEW_COUNT) {
    args.views[kView].data = mark_use(kView, args.views[kView].data);
    mark_uses<kView + 1>(args);
  }
}

// Stands once in each launcher.
TSL_INLINE void mark_control() { asm volatile(TSL_MARK_ASM("control")); }

}  // namespace tsl
