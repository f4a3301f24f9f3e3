#include "common/interrupts.h"

#include <atomic>
#include <exception>

#include "common/background.h"

namespace torch_slang {
namespace {

constexpr int64_t kForItself = -1;

std::atomic<InterruptCheck> host_check{nullptr};
std::atomic<int64_t> interruptions{0};  // of the whole process
// By thread, not passed: waits of all kinds call check_interrupts() far below the work that knows for whom it is done, and all
// waits of a thread work for the same one.
thread_local int64_t seen_interruptions = kForItself;

// Ends the work of a thread that another one waited for, or might have.
class Stopped final : public std::exception, public Interrupted {
 public:
  const char* what() const noexcept override {
    return "stopped, since the thread that asked for this work was interrupted, or the process ends";
  }
};

}  // namespace

void set_interrupt_check(InterruptCheck check) { host_check = check; }

void check_interrupts() {
  if (is_spare_work()) {
    if (process_is_ending()) throw Stopped();
    return;
  }
  if (seen_interruptions != kForItself) {
    if (interruptions != seen_interruptions) throw Stopped();
    return;
  }
  const InterruptCheck check = host_check;
  if (check == nullptr) return;
  try {
    check();
  } catch (const Interrupted&) {
    ++interruptions;
    throw;
  }
}

int64_t interruptions_seen() { return seen_interruptions == kForItself ? interruptions.load() : seen_interruptions; }

WorksForAnother::WorksForAnother(int64_t since) : before_(seen_interruptions) { seen_interruptions = since; }

WorksForAnother::~WorksForAnother() { seen_interruptions = before_; }

}  // namespace torch_slang
