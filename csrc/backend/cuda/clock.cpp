#include "backend/cuda/clock.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "common/log.h"

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

// Note [short kernels]
//   Events tell time in steps of half a microsecond, and the host gives launches more slowly than a short kernel runs. So
//   several launches stand between two events, behind a kernel that waits until all of them are there.
constexpr double kShort = 20e-6;  // seconds
constexpr double kTimeOfQueue = 100e-6, kMostWait = 2e-3;
constexpr int kLongestQueue = 64, kQueues = 3;

constexpr const char* kWait = R"(.version 6.0
.target sm_70
.address_size 64
.visible .entry wait(.param .u64 nanoseconds) {
  .reg .u64 time, begin, now;
  .reg .pred early;
  ld.param.u64 time, [nanoseconds];
  mov.u64 begin, %globaltimer;
again:
  mov.u64 now, %globaltimer;
  sub.u64 now, now, begin;
  setp.lt.u64 early, now, time;
  @early bra again;
  ret;
})";

// Null where the driver compiles no PTX: what NVRTC makes for a GPU it need not compile.
CudaFunction wait_kernel(const CudaGpu& gpu) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<int, CudaFunction>();  // never destroyed
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = loaded.find(gpu.index());
  if (known != loaded.end()) return known->second;
  const RelaxedCapture relaxed;
  CudaModule module = nullptr;  // see Note [modules stay]
  CudaFunction function = nullptr;
  if (driver().module_load_data(&module, kWait) != kCudaSuccess ||
      driver().module_get_function(&function, module, "wait") != kCudaSuccess) {
    log_debug("the driver compiles no PTX, so short kernels are timed one by one");
    function = nullptr;
  }
  return loaded[gpu.index()] = function;
}

void launch_wait(const CudaGpu& gpu, CudaFunction wait, double seconds) {
  auto nanoseconds = static_cast<uint64_t>(seconds * 1e9);
  void* parameters[] = {&nanoseconds};
  check_driver(driver().launch_kernel(wait, 1, 1, 1, 1, 1, 1, 0, current_stream(gpu), parameters, nullptr),
               "cuLaunchKernel", kWhat);
}

// How many calls stand in a queue: no more than the host launches in half of the longest wait.
int queue_length(double seconds, double host, int rounds) {
  const int worth = std::min(static_cast<int>(kTimeOfQueue / std::max(seconds, 1e-6)), kLongestQueue);
  const int fit = static_cast<int>(kMostWait / (2 * std::max(host, 1e-6)));
  return std::min(std::max(rounds, worth), fit);
}

// Of one of `count` calls of which the host needs `host` seconds each to launch them.
double seconds_in_queue(const CudaGpu& gpu, CudaFunction wait, c10::function_ref<void()> work, int count, double host) {
  double least = std::numeric_limits<double>::infinity();
  for (int queue = 0; queue < kQueues; ++queue) {
    Event begin, end;
    launch_wait(gpu, wait, 2 * host * count);
    begin.record(gpu);
    for (int i = 0; i < count; ++i) work();
    end.record(gpu);
    end.wait();
    least = std::min(least, end.seconds_since(begin) / count);
  }
  return least;
}

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// All rounds are given to the stream before anybody waits, so that the host's own time shows only where it is the longer;
// then Note [short kernels].
double seconds_on_gpu(const CudaGpu& gpu, c10::function_ref<void()> work, int rounds) {
  const CurrentContext context(gpu);
  std::vector<Event> events(static_cast<size_t>(rounds) + 1);
  const double begin = host_seconds();
  events[0].record(gpu);
  for (size_t i = 1; i < events.size(); ++i) {
    work();
    events[i].record(gpu);
  }
  const double host = (host_seconds() - begin) / rounds;
  events.back().wait();
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < events.size(); ++i) least = std::min(least, events[i].seconds_since(events[i - 1]));
  // What seems long may be the host's time. Once: what may not be done twice.
  if (rounds == 1 || least > std::max(kShort, 2 * host)) return least;
  const CudaFunction wait = wait_kernel(gpu);
  const int count = queue_length(least, host, rounds);
  return wait != nullptr && count > 1 ? seconds_in_queue(gpu, wait, work, count, host) : least;
}

}  // namespace torch_slang
