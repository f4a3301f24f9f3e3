// All that decides a compiled kernel, apart from the device: the device text, and the generated text around it. Plain
// data; device_compilers/ make code of it, for a CPU or a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// What compiled code checks as it runs: nothing; that indices are inside their views; or all that debug mode does.
enum class Checks : int8_t { None, Bounds, All };

// Note [map loops]
//   An elementwise function runs once for each element. The loop around it is not the user's: the prelude has one for each
//   backend (prelude/map.h). It loads the values of an element's arguments into fields of the kernel object, where the emitted text finds
//   them (tsl_input), and stores the fields that the text has filled (tsl_output). Values that all elements share are
//   loaded once. An output that is Summed is added up over all elements: each block of the loop writes its sum to a row of
//   its own, in the type that sums are kept in, and whoever launches adds the rows. Sums over rows or columns alone have
//   parts in the same way.
struct MapView {
  enum class Access : char {
    Dense = 'd',  // contiguous, elements in the loop's order
    Scalar = 's',  // one element for all: the view's first, or the slots' if the view is null
    // Where not all is dense, the loop goes by rows, and strides say where a row begins.
    Row = 'r',  // a row's elements follow each other
    Column = 'c',  // one element for the whole row
    Strided = 'g',  // a row's elements stand apart
    // Made of the element's number, as the slots say: Note [generated elements] in prelude/map_generated.h.
    Place = 'p',
    Hash = 'h',
    Random = 'n',
    // Outputs alone; the last two on GPUs, where blocks take tiles of rows and columns.
    Summed = '+',
    RowSum = 'x',  // of each part of a row: [rows, parts]
    ColumnSum = 'y',  // of each part of a column: [parts, columns]
  };
  int view = 0;
  int slot = -1;
  ElementType type = ElementType::Float32;  // in memory
  int components = 1;
  Access access = Access::Dense;
  bool is_value = false;  // a result that stands beside tangents: Note [values beside tangents] in prelude/map.h
};

// A component of a generated input.
struct MapPlace {
  int view = 0;
  int component = 0;
};

struct MapLoop {
  std::vector<MapView> inputs;
  std::vector<MapView> outputs;
  bool is_tiled = false;  // by rows
  int lanes = 1;  // elements that a GPU thread loads at once; above 1 only where dense views are aligned to 16 bytes
  // Whole ones, which it may change: it runs for elements alone, whose numbers are its threads'.
  bool sees_tensors = false;
  std::vector<MapPlace> places = {};  // Note [own places] in specialise/own_places.h
};

constexpr uint32_t kMapThreads = 256;  // of a block of a map loop on a GPU
constexpr uint32_t kMapElements = 4096;  // of a block of a map loop on the host

// How a dimension of a view is divided among the launch's threads.
struct ShareDim {
  int axis = -1;  // the launch's axis along which threads share it out, or
  int place = -1;  // which of MapLoop::places, or
  int64_t size = 0;  // how many elements of this dimension each thread has
};

// A view of which threads have elements, and how a thread keeps them in registers.
struct ThreadView {
  enum class Kept : char {
    Result,  // a gradient that it adds up: Note [own elements] in prelude/own.h
    Given,  // an output's gradient, which is only read
    Shared,  // a gradient that the threads along an axis add up: Note [shared elements] in prelude/shared.h
    Summed,  // a gradient that is added to atomically, after what the threads of a group add
    Few,  // a gradient of which each thread has sums of all elements: Note [few elements] in prelude/map_sums.h
    Input,
    Output  // these three in vectors alone
  };
  int view = 0;
  ElementType type = ElementType::Float32;  // of the numbers in an element
  int64_t components = 1;
  std::vector<ShareDim> dims;
  Kept kept = Kept::Input;
  bool is_replicated = false;  // of one that is shared, or few
  int64_t numbers = 0;  // of one that is few: so many at most
  bool in_vectors = false;  // Note [vector accesses] in prelude/vector_access.h
  bool serves_neighbours = false;  // of an input in vectors: also to the other threads of the vector
};

// How many threads of the launch a thread of a GPU runs, and along which axis: Note [virtual threads] in
// prelude/device_loop.h.
struct VirtualThreads {
  int count = 1;
  int axis = 0;
  int lanes = 1;  // of them follow each other along x
  int repeats = 1;  // how many times as many a thread runs, one such count after the other
  bool shares = false;  // threads along the axis share elements of gradients
  bool adds_apart = false;  // lanes that add to the same elements of gradients do not sum first, though they could
  bool tiles_waves = false;  // Note [tiled waves] in prelude/device_loop.h
  bool is_flat = false;  // the device's blocks stand in one row, since along y or z they would be too many
  uint32_t block[3] = {0, 0, 0};  // that all launches have; zeros: any

  int groups() const { return count / lanes; }
  bool operator==(const VirtualThreads&) const = default;
};

// Everything that decides a compiled kernel, apart from the device. Its hash is the key in the disk cache.
// Lanes keep numbers in registers until they sum them, and the more registers a thread has, the fewer threads a multiprocessor
// runs. A kernel that needs kFewRegisters or less without sums gets kFewRegistersWithSums: three blocks of 256 threads run at
// once. Another gets kMostRegistersWithSums, for two blocks; one that needs more without sums has no room for them.
constexpr int kFewRegisters = 64, kFewRegistersWithSums = 80, kMostRegistersWithSums = 128;
// A kernel that declares more group-shared memory has no room for the sums of its blocks: Note [held sums] in prelude/held_sums.h.
constexpr int kMostSharedBytesWithSums = 48 * 1024 - 64 * 4;
constexpr int registers_with_sums(int without) {
  return without <= kFewRegisters ? kFewRegistersWithSums : kMostRegistersWithSums;
}

struct KernelSource {
  std::string op;  // "slang::sqr_backward", for messages and logs
  DeviceText text;
  int view_count = 0;
  int slot_count = 0;
  int dim_count = 0;
  uint32_t gradient_scalars = ~0u;  // what numbers gradient views may hold: bit k for ElementType k
  int64_t gradient_components = 0;  // how many of them an element has, in all gradient views; 0: not the same in all
  std::string make_view;  // body of `tsl::View tsl_make_view(const TslArgs& args, int k)`, see prelude/
  // C++ expressions over `args`: how many threads there are along x, y and z by the launch's total; empty if not known.
  std::vector<std::string> thread_bounds;
  std::vector<ThreadView> thread_views;
  bool has_wave_sums = false;  // lanes that add to the same elements sum first: Note [wave sums] in prelude/wave_sums.h
  bool holds_sums = false;  // on the host: Note [held sums] in prelude/held_sums.h
  bool joins_neighbours = false;  // on a GPU, if it does not sum: Note [neighbours] in prelude/neighbours.h
  int most_registers = 0;  // of a GPU's thread, where that is less than the device has; else 0
  VirtualThreads threads;
  bool independent_views =
      false;  // no two views overlap and none that is written overlaps itself: no-alias promises hold
  uint32_t block[3] = {0, 0, 0};  // threads a block where that is fixed for every launch, else zeros
  bool at_once = false;  // on the host: Note [inlined at once] in prelude/target.h
  bool wraps = false;  // on the host: Note [host loop] in prelude/host_loop.h
  std::optional<MapLoop> map;  // of an elementwise function, which has no launcher of its own
  bool fast_math = false;
  Checks checks = Checks::None;
  bool polls = false;  // loops ask whether the launch is to stop: Note [stopped launches] in prelude/polls.h
  // Above 0: a GPU's kernel for launches with so many sample dimensions, and the slots that hold pointers: Note [samples] in
  // backend/samples.h.
  int sample_dims = 0;
  std::vector<int> pointer_slots;
  bool locate = false;  // marks `shares 3` tell where, too: for looking at, not to run
};

}  // namespace torch_slang
