// A backend turns device text into a Kernel for one device and launches it. Two exist: cpu/ (host compiler, torch's
// thread pool) and cuda/ (NVRTC, driver API). Kernels are immutable and may be launched from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// What compiled code checks as it runs: nothing; that indices are inside their views; or all that debug mode does.
enum class Checks : int8_t { None, Bounds, All };

// Note [map loops]
//   An elementwise function runs once for each element. The loop around it is not the user's, so it is written here, for each
//   backend: it loads the values of an element's arguments into fields of the kernel object, where the emitted text finds
//   them (tsl_input), and stores the fields that the text has filled (tsl_output). What is the same for all elements is
//   loaded once. An output that is Summed is added up over all elements: each block of the loop writes its sum to a row of
//   its own, in the type that sums are kept in, and whoever launches adds the rows. Sums over rows or columns alone have
//   parts in the same way.
struct MapView {
  enum class Access : char {
    Dense = 'd',    // contiguous, elements in the loop's order
    Scalar = 's',   // one element for all: the view's first, or the slots' if the view is null
    // Where not all is dense, the loop goes by rows, and strides say where a row begins.
    Row = 'r',        // a row's elements follow each other
    Column = 'c',     // one element for the whole row
    Strided = 'g',    // a row's elements stand apart
    // Outputs alone; the last two on GPUs, where blocks take tiles of rows and columns.
    Summed = '+',
    RowSum = 'x',     // of each part of a row: [rows, parts]
    ColumnSum = 'y',  // of each part of a column: [parts, columns]
  };
  int view = 0;
  int slot = -1;
  ElementType type = ElementType::Float32;  // in memory
  int components = 1;
  Access access = Access::Dense;
};

struct MapLoop {
  std::vector<MapView> inputs;
  std::vector<MapView> outputs;
  bool is_tiled = false;  // by rows
  int lanes = 1;  // elements that a GPU thread loads at once; above 1 only where dense views are aligned to 16 bytes
};

constexpr uint32_t kMapThreads = 256;   // of a block of a map loop on a GPU
constexpr uint32_t kMapElements = 4096;  // of a block of a map loop on the host

// What a thread of the launch has of a dimension of a view.
struct ShareDim {
  int axis = -1;  // the launch's axis along which threads share it out, or
  int64_t size = 0;  // how many elements of this dimension each thread has
};

// A view of which threads have elements, and how a thread keeps them in registers.
struct ThreadView {
  enum class Kept : char {
    Result,  // a gradient that it adds up: Note [own elements] in prelude/own.h
    Given,   // an output's gradient, which is only read
    Shared,  // a gradient that the threads along an axis add up: Note [shared elements] in prelude/shared.h
    Summed,  // a gradient that is added to atomically, after what the threads of a group add
    Input,
    Output  // these three in words alone
  };
  int view = 0;
  ElementType type = ElementType::Float32;  // of the numbers in an element
  int64_t components = 1;
  std::vector<ShareDim> dims;
  Kept kept = Kept::Input;
  bool is_replicated = false;  // of one that is shared
  bool in_words = false;  // Note [words] in prelude/words.h
  bool serves_neighbours = false;  // of an input in words: also to the other threads of the word
};

// How many threads of the launch a thread of a GPU runs, and along which axis: Note [virtual threads] in
// prelude/device_loop.h.
struct VirtualThreads {
  int count = 1;
  int axis = 0;
  int lanes = 1;  // of them follow each other along x
  int repeats = 1;  // how many times as many a thread runs, one such count after the other
  bool shares = false;  // threads along the axis share elements of gradients
  bool meetings = false;  // lanes that add to the same elements sum first: Note [meetings] in prelude/meetings.h
  bool is_flat = false;  // the device's blocks stand in one row, since along y or z they would be too many
  uint32_t block[3] = {0, 0, 0};  // that all launches have; zeros: any

  int groups() const { return count / lanes; }
  bool operator==(const VirtualThreads&) const = default;
};

// Everything that decides a compiled kernel, apart from the device. Its hash is the key in the disk cache.
struct KernelSource {
  std::string op;                 // "slang::sqr_backward", for messages and logs
  DeviceText text;
  int view_count = 0;
  int slot_count = 0;
  int dim_count = 0;
  uint32_t gradient_scalars = ~0u;  // what numbers gradient views may hold: bit k for ElementType k
  int64_t gradient_components = 0;  // how many of them an element has, in all gradient views; 0: not the same in all
  std::string make_view;          // body of `TensorView tsl_make_view(const TslArgs& args, int k)`, see prelude/
  // C++ expressions over `args`: how many threads there are along x, y and z by the launch's total; empty if not known.
  std::vector<std::string> thread_bounds;
  std::vector<ThreadView> thread_views;
  VirtualThreads threads;
  bool independent_views =
      false;  // no two views overlap and none that is written overlaps itself: no-alias promises hold
  uint32_t block[3] = {0, 0, 0};  // threads a block where that is fixed for every launch, else zeros
  std::optional<MapLoop> map;  // of an elementwise function, which has no launcher of its own
  bool fast_math = false;
  Checks checks = Checks::None;
  bool polls = false;  // loops ask whether the launch is to stop: Note [stopped launches] in prelude/polls.h
  bool locate = false;  // marks `shares 3` tell where, too: for looking at, not to run
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};  // blocks, as the kernel sees them; all at least 1
  uint32_t block[3] = {1, 1, 1};  // threads a block
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // `args` is the argument block of prelude/abi.h, header included; it is read before launch returns.
  virtual void launch(const LaunchShape& shape, const void* args, size_t args_size) const = 0;
  // What the device runs for a launch of this shape.
  virtual LaunchShape on_device(const LaunchShape& shape) const { return shape; }
  // Whether its registers suffice for as many threads a block.
  virtual bool fits(const LaunchShape& /*shape*/) const { return true; }
  // Facts that the compiled code shows, each a short word such as "reads 3" (it reads view 3): see Note [marks].
  virtual const std::set<std::string>& marks() const = 0;
  virtual int registers() const { return 0; }  // of a GPU thread
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

  // What the hardware is called: choices that were measured on it hold wherever the name is the same.
  virtual std::string hardware(c10::Device device) = 0;
  // Whether kernels may multiply lines of blocks: Note [lines] in prelude/mma_lines.h.
  virtual bool multiplies_lines(c10::Device /*device*/) { return false; }
  // Seconds that the device takes for what one call of `work` gives it on the current stream (a CPU: for the call itself),
  // the least of `rounds` calls in a row. With two or more a GPU may call `work` more often, and give an average, where it is
  // too short for the clock. Waits for the stream; not while it is captured.
  virtual double seconds(c10::Device device, c10::function_ref<void()> work, int rounds) = 0;
};

Backend& cpu_backend();
Backend& cuda_backend();  // throws only when used
Backend& backend_for(c10::DeviceType type);  // an error that names the device type if there is none

}  // namespace torch_slang
