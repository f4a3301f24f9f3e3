// What the address and thread sanitizers must be told when stacks change. Everything here is empty in ordinary builds.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#define TORCH_SLANG_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TORCH_SLANG_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TORCH_SLANG_HAS_FEATURE(address_sanitizer)
#define TORCH_SLANG_ADDRESS_SANITIZER 1
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__SANITIZE_THREAD__) || TORCH_SLANG_HAS_FEATURE(thread_sanitizer)
#define TORCH_SLANG_THREAD_SANITIZER 1
#include <sanitizer/tsan_interface.h>
#endif

// For functions that are entered and never left: thread sanitizer counts both.
#define TORCH_SLANG_NO_THREAD_SANITIZER __attribute__((no_sanitize("thread")))

namespace torch_slang {

// The bounds of the calling OS thread's own stack.
inline void describe_own_stack([[maybe_unused]] const void*& bottom, [[maybe_unused]] size_t& size) {
#if TORCH_SLANG_ADDRESS_SANITIZER
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* address = nullptr;
  pthread_attr_getstack(&attributes, &address, &size);
  pthread_attr_destroy(&attributes);
  bottom = address;
#endif
}

inline void before_fiber_switch([[maybe_unused]] void*& fake_stack, [[maybe_unused]] const void* bottom,
                                [[maybe_unused]] size_t size, [[maybe_unused]] void* fiber) {
#if TORCH_SLANG_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake_stack, bottom, size);
#endif
#if TORCH_SLANG_THREAD_SANITIZER
  __tsan_switch_to_fiber(fiber, 0);
#endif
}

inline void after_fiber_switch([[maybe_unused]] void* fake_stack) {
#if TORCH_SLANG_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

// Frames that were abandoned on this memory leave nothing behind.
inline void forget_stack([[maybe_unused]] const void* memory, [[maybe_unused]] size_t size) {
#if TORCH_SLANG_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, size);
#endif
}

inline void* current_thread_sanitizer_fiber() {
#if TORCH_SLANG_THREAD_SANITIZER
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

inline void* create_thread_sanitizer_fiber() {
#if TORCH_SLANG_THREAD_SANITIZER
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

inline void destroy_thread_sanitizer_fiber([[maybe_unused]] void* fiber) {
#if TORCH_SLANG_THREAD_SANITIZER
  if (fiber != nullptr) __tsan_destroy_fiber(fiber);
#endif
}

}  // namespace torch_slang
