// Fibers: call stacks that take turns on one OS thread. The threads of a GPU block that must meet each run on one.
// A fiber runs on the OS thread that made it and never moves; nothing here is shared between OS threads.
//
// Note [fibers and exceptions]
//   An exception must be caught on the stack that threw it. A fiber's body therefore catches everything, or (as compiled
//   kernels do) throws nothing; a body never returns either: it switches away for the last time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#if defined(TORCH_SLANG_FIBER_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define TORCH_SLANG_FIBER_UCONTEXT 1
#include <ucontext.h>
#endif

namespace torch_slang {

// Where a stack is to go on. The context of an OS thread's own stack is made by `of_this_thread`; it is filled in when
// that stack is switched away from.
struct FiberContext {
#if TORCH_SLANG_FIBER_UCONTEXT
  ucontext_t machine;
#else
  void* stack_pointer = nullptr;
#endif
  // What sanitizers want to know of a stack; unused otherwise.
  const void* stack_bottom = nullptr;
  size_t stack_size = 0;
  void* fake_stack = nullptr;
  void* thread_sanitizer_fiber = nullptr;

  static FiberContext of_this_thread();
};

// Goes on at `to`; returns when somebody switches back to `from`.
void switch_fiber(FiberContext& from, FiberContext& to);

// Stacks in one mapping, each with a guard page below it, so that a kernel that needs more than its stack ends the
// process instead of writing over another thread's. Memory is taken as it is touched.
class FiberStacks {
 public:
  FiberStacks(size_t count, size_t stack_size);  // throws c10::Error if there is no address space left
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  size_t count() const { return count_; }
  // The k-th stack, ready to run `body(argument)` when it is first switched to. Whatever ran on it before is forgotten.
  FiberContext start(size_t k, void (*body)(void*), void* argument);

 private:
  unsigned char* stack(size_t k) const { return memory_ + k * (stack_size_ + guard_size_) + guard_size_; }

  size_t count_;
  size_t stack_size_;
  size_t guard_size_;
  unsigned char* memory_ = nullptr;
  int guard_pages_counted_ = 0;
  std::vector<void*> thread_sanitizer_fibers_;
};

// TORCH_SLANG_FIBER_STACK_KB, or a default with room for a few large local arrays.
size_t fiber_stack_size();

}  // namespace torch_slang
