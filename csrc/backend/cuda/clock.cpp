#include "backend/cuda/clock.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace torch_slang {
namespace {

constexpr const char* kWhat = "timing a kernel";

class Event {
 public:
  Event() { check_driver(driver().event_create(&event_, 0), "cuEventCreate", kWhat); }
  ~Event() {
    if (event_ != nullptr) driver().event_destroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  void record(const CudaGpu& gpu) {
    check_driver(driver().event_record(event_, current_stream(gpu)), "cuEventRecord", kWhat);
  }
  void wait() const { check_driver(driver().event_synchronize(event_), "cuEventSynchronize", kWhat); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    check_driver(driver().event_elapsed_time(&milliseconds, start.event_, event_), "cuEventElapsedTime", kWhat);
    return milliseconds * 1e-3;
  }

 private:
  CudaEvent event_ = nullptr;
};

}  // namespace

// All rounds are given to the stream before anybody waits, so that the host's own time shows only where it is the longer.
double seconds_on_gpu(const CudaGpu& gpu, c10::function_ref<void()> work, int rounds) {
  const CurrentContext context(gpu);
  std::vector<Event> events(static_cast<size_t>(rounds) + 1);
  events[0].record(gpu);
  for (size_t i = 1; i < events.size(); ++i) {
    work();
    events[i].record(gpu);
  }
  events.back().wait();
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < events.size(); ++i) least = std::min(least, events[i].seconds_since(events[i - 1]));
  return least;
}

}  // namespace torch_slang
