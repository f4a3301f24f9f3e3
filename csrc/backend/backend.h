// A backend turns device text into a Kernel for one device and launches it. Two exist: cpu/ (host compiler, torch's
// thread pool) and cuda/ (NVRTC, driver API). Kernels are immutable and may be launched from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "backend/samples.h"
#include "source/kernel_source.h"

namespace torch_slang {

inline constexpr uint32_t kWave = 32;  // threads of a GPU's wave

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};  // blocks, as the kernel sees them; all at least 1
  uint32_t block[3] = {1, 1, 1};  // threads a block
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // `args` is the argument block of prelude/abi.h, header included; it is read before launch returns.
  virtual void launch(const LaunchShape& shape, const void* args, size_t args_size) const = 0;
  // The same for each of some samples, in one launch: Note [samples] in backend/samples.h.
  virtual void launch_samples(const LaunchShape& shape, const void* args, size_t args_size,
                              const Samples& samples) const = 0;
  // What the device runs for a launch of this shape.
  virtual LaunchShape on_device(const LaunchShape& shape) const { return shape; }
  // Whether its registers suffice for as many threads a block.
  virtual bool fits(const LaunchShape& /*shape*/) const { return true; }
  // Facts that the compiled code shows, each a short word such as "reads 3" (it reads view 3): see Note [marks].
  virtual const std::set<std::string>& marks() const = 0;
  virtual int registers() const { return 0; }  // of a GPU thread
  virtual int group_shared_bytes() const { return 0; }  // of a GPU's block, that the kernel declares
  virtual int local_bytes() const { return 0; }  // of a GPU thread's memory: what registers did not hold
  // A good number of threads a block for a one-dimensional launch when the user gives none.
  virtual uint32_t preferred_block() const = 0;
  // How many blocks of kMapThreads threads the device runs at once; a map loop with sums gains nothing by more.
  virtual uint32_t resident_blocks() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Compiles (or takes from the disk cache) and loads. Throws CompileError with the device compiler's own diagnostics.
  // Thread-safe; not cached in memory here: the caller keeps the Kernel.
  virtual std::shared_ptr<const Kernel> load(const KernelSource& source, c10::Device device) = 0;
  // Throws LaunchError naming op, grid, block and the limit if the device cannot launch this shape.
  virtual void check_launch(const std::string& op, const LaunchShape& shape, c10::Device device) = 0;
  // How many threads the device runs at the same time, if it makes sense for each to run several of the launch; else 0.
  virtual uint64_t threads_at_once(c10::Device device) = 0;
  // Whether the device's current stream is being captured into a graph, so that nobody may wait for it.
  virtual bool is_capturing(c10::Device device) = 0;
  // Waits for the event `made`, copies the bytes to the CPU's memory, and waits for the copy. Any thread may call it, also while others
  // capture graphs: it uses no stream of torch's, since each may be captured.
  virtual void copy_to_cpu(c10::Device device, const c10::Event& made, void* to, const void* from, size_t bytes) = 0;

  // What the hardware is called: choices that were measured on it hold wherever the name is the same.
  virtual std::string hardware(c10::Device device) = 0;
  // Whether kernels may multiply lines of blocks: Note [lines] in prelude/mma_lines.h.
  virtual bool multiplies_lines(c10::Device /*device*/) { return false; }
  // Seconds that the device takes for the work of one call of `work` on the current stream (a CPU: for the call itself),
  // the least of `rounds` calls in a row. With two or more a GPU may call `work` more often, and give an average, where it is
  // too short for the clock. Waits for the stream; not while it is captured.
  virtual double seconds(c10::Device device, c10::function_ref<void()> work, int rounds) = 0;
};

Backend& cpu_backend();
Backend& cuda_backend();  // throws only when used
Backend& backend_for(c10::DeviceType type);  // an error that names the device type if there is none

}  // namespace torch_slang
