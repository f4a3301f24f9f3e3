// Loops of emitted text that ask, before each iteration, whether they may go on.
//
// Note [stopped launches]
//   A kernel that never ends can be stopped on the CPU where the run-time has asked for it (TSL_POLLS): in debug mode, and
//   with TORCH_SLANG_LAUNCH_TIMEOUT. Then the word `stop` of the launch's fault record is set from outside
//   (backend/cpu/launch_watch.h), all loops end where they are, and so does the loop over blocks; the first loop to
//   see it notes where it stands. What the kernel has stored by then is nobody's concern, since the launch fails.
#pragma once

#include "prelude/checks.h"

namespace tsl {

#if TSL_POLLS
TSL_INLINE bool is_stopped(const TslArgs& args) {
  return __builtin_expect(*const_cast<const volatile unsigned*>(&args.header.fault->stop) != 0u, false);
}
TSL_INLINE bool may_go_on(const ThreadBase& kernel, ulonglong at) {
  if (!is_stopped(kernel.args)) return true;
  note_fault(witness(kernel), uint(at) == 0 ? kernel.tsl_at : at, ulonglong(kTslStopped) << 40, 0, place_of(0u, 0u));
  return false;
}
#define TSL_POLL(file, line) tsl::may_go_on(*this, ulonglong(file) << 32 | line)
#define TSL_STOPPED(args) tsl::is_stopped(args)
#else
#define TSL_POLL(file, line) true
#define TSL_STOPPED(args) false
#endif

}  // namespace tsl
