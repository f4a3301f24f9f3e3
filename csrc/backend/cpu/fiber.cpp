#include "backend/cpu/fiber.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "backend/cpu/sanitizers.h"
#include "common/environment.h"

#if !TORCH_SLANG_FIBER_UCONTEXT
// Saves what a called function must preserve, changes stacks, and restores it. The floating-point control words are not
// switched: all fibers of a thread share them. A new stack is prepared by FiberStacks::start as if it had called this
// from torch_slang_fiber_entry.
extern "C" void torch_slang_switch_stack(void** from, void* to);
extern "C" void torch_slang_fiber_entry();

#if defined(__x86_64__)
asm(R"(
    .pushsection .text
    .p2align 4
    .globl torch_slang_switch_stack
    .hidden torch_slang_switch_stack
    .type torch_slang_switch_stack, @function
torch_slang_switch_stack:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .cfi_endproc
    .size torch_slang_switch_stack, . - torch_slang_switch_stack

    .p2align 4
    .globl torch_slang_fiber_entry
    .hidden torch_slang_fiber_entry
    .type torch_slang_fiber_entry, @function
torch_slang_fiber_entry:
    .cfi_startproc
    .cfi_undefined rip
    movq %r12, %rdi
    callq *%r13
    ud2
    .cfi_endproc
    .size torch_slang_fiber_entry, . - torch_slang_fiber_entry
    .popsection
)");

namespace {

void* prepare_stack(unsigned char* top, void (*body)(void*), void* argument) {
  // From low to high: r15 r14 r13 r12 rbx rbp, return address, and zeros that end the chain of callers. The stack
  // pointer is a multiple of 16 once these are taken off.
  auto** frame = reinterpret_cast<void**>(top) - 9;
  std::fill(frame, frame + 9, nullptr);
  frame[2] = reinterpret_cast<void*>(body);
  frame[3] = argument;
  frame[6] = reinterpret_cast<void*>(&torch_slang_fiber_entry);
  return frame;
}

}  // namespace
#else
asm(R"(
    .pushsection .text
    .p2align 4
    .globl torch_slang_switch_stack
    .hidden torch_slang_switch_stack
    .type torch_slang_switch_stack, %function
torch_slang_switch_stack:
    .cfi_startproc
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
    .cfi_endproc
    .size torch_slang_switch_stack, . - torch_slang_switch_stack

    .p2align 4
    .globl torch_slang_fiber_entry
    .hidden torch_slang_fiber_entry
    .type torch_slang_fiber_entry, %function
torch_slang_fiber_entry:
    .cfi_startproc
    .cfi_undefined x30
    mov x0, x19
    blr x20
    brk #0
    .cfi_endproc
    .size torch_slang_fiber_entry, . - torch_slang_fiber_entry
    .popsection
)");

namespace {

void* prepare_stack(unsigned char* top, void (*body)(void*), void* argument) {
  auto** frame = reinterpret_cast<void**>(top - 160);  // x29 x30 x19 x20 ... as switch_stack stores them
  std::fill(frame, frame + 20, nullptr);
  frame[1] = reinterpret_cast<void*>(&torch_slang_fiber_entry);
  frame[2] = argument;
  frame[3] = reinterpret_cast<void*>(body);
  return frame;
}

}  // namespace
#endif
#endif

namespace torch_slang {

FiberContext FiberContext::of_this_thread() {
  FiberContext context{};
  describe_own_stack(context.stack_bottom, context.stack_size);
  context.thread_sanitizer_fiber = current_thread_sanitizer_fiber();
  return context;
}

void switch_fiber(FiberContext& from, FiberContext& to) {
  before_fiber_switch(from.fake_stack, to.stack_bottom, to.stack_size, to.thread_sanitizer_fiber);
#if TORCH_SLANG_FIBER_UCONTEXT
  swapcontext(&from.machine, &to.machine);
#else
  torch_slang_switch_stack(&from.stack_pointer, to.stack_pointer);
#endif
  after_fiber_switch(from.fake_stack);
}

namespace {

// Note [guard pages]
//   A page that is protected splits its mapping, and a process may have about 65,000 mappings in all: 1,024 stacks on
//   each of 64 threads would take them all, and every later mmap or malloc would fail. Newer kernels (6.13) have guard
//   regions that split nothing. Elsewhere guards are set while they take less than a quarter of what the system allows.
constexpr int kAdviseGuardInstall = 102;  // MADV_GUARD_INSTALL, unknown to older headers

std::atomic<int> protected_guards{0};

int most_protected_guards() {
  static const int most = [] {
    int all_mappings = 65530;
    std::ifstream("/proc/sys/vm/max_map_count") >> all_mappings;
    return all_mappings / 8;  // two mappings for each
  }();
  return most;
}

// Whether the page was protected, and counts.
bool set_guard(unsigned char* page, size_t size) {
  if (madvise(page, size, kAdviseGuardInstall) == 0) return false;
  if (protected_guards.fetch_add(1) >= most_protected_guards() || mprotect(page, size, PROT_NONE) != 0) {
    protected_guards.fetch_sub(1);
    return false;
  }
  return true;
}

// A body starts here, so that sanitizers learn that the switch is over.
struct FiberStart {
  void (*body)(void*);
  void* argument;
};

TORCH_SLANG_NO_THREAD_SANITIZER void run_body(void* start_pointer) {
  auto start = *static_cast<FiberStart*>(start_pointer);
  after_fiber_switch(nullptr);
  start.body(start.argument);
}

#if TORCH_SLANG_FIBER_UCONTEXT
void run_body_from_halves(unsigned high, unsigned low) {
  run_body(reinterpret_cast<void*>((static_cast<uint64_t>(high) << 32) | low));
}
#endif

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

FiberStacks::FiberStacks(size_t count, size_t stack_size)
    : count_(count), guard_size_(page_size()), thread_sanitizer_fibers_(count) {
  stack_size_ = (stack_size + page_size() - 1) / page_size() * page_size();
  size_t size = count_ * (stack_size_ + guard_size_);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(memory != MAP_FAILED, "cannot reserve ", size, " bytes for the stacks of ", count_,
              " threads of a block: ", std::strerror(errno),
              " (TORCH_SLANG_FIBER_STACK_KB sets the size of one stack)");
  memory_ = static_cast<unsigned char*>(memory);
  for (size_t k = 0; k < count_; ++k) guard_pages_counted_ += set_guard(stack(k) - guard_size_, guard_size_);
}

FiberStacks::~FiberStacks() {
  for (void* fiber : thread_sanitizer_fibers_) destroy_thread_sanitizer_fiber(fiber);
  forget_stack(memory_, count_ * (stack_size_ + guard_size_));
  munmap(memory_, count_ * (stack_size_ + guard_size_));
  protected_guards.fetch_sub(guard_pages_counted_);
}

FiberContext FiberStacks::start(size_t k, void (*body)(void*), void* argument) {
  FiberContext context{};
  context.stack_bottom = stack(k);
  context.stack_size = stack_size_;
  forget_stack(stack(k), stack_size_);
  destroy_thread_sanitizer_fiber(thread_sanitizer_fibers_[k]);
  context.thread_sanitizer_fiber = thread_sanitizer_fibers_[k] = create_thread_sanitizer_fiber();

  // Equal frames of neighbours would share a few sets of the first-level cache if every stack began at a page's end.
  size_t colour = k % 16 * 256;
  auto* start = reinterpret_cast<FiberStart*>(stack(k) + stack_size_ - colour) - 1;
  *start = {body, argument};
#if TORCH_SLANG_FIBER_UCONTEXT
  getcontext(&context.machine);
  context.machine.uc_stack.ss_sp = stack(k);
  context.machine.uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<unsigned char*>(start) - stack(k));
  context.machine.uc_link = nullptr;
  auto address = reinterpret_cast<uint64_t>(start);
  makecontext(&context.machine, reinterpret_cast<void (*)()>(&run_body_from_halves), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#else
  context.stack_pointer = prepare_stack(reinterpret_cast<unsigned char*>(start), &run_body, start);
#endif
  return context;
}

size_t fiber_stack_size() {
  int64_t kilobytes = environment_integer("TORCH_SLANG_FIBER_STACK_KB", 256);
  TORCH_CHECK(kilobytes >= 16 && kilobytes <= 1024 * 1024,
              "TORCH_SLANG_FIBER_STACK_KB: expected 16 to 1048576, but got ", kilobytes);
  return static_cast<size_t>(kilobytes) * 1024;
}

}  // namespace torch_slang
