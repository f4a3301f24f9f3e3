// What a launch hands to compiled device code: one flat argument block. The run-time includes this header, and its text
// also stands at the top of every device source, so both sides agree on the layout by construction. Plain C++ without
// includes: NVRTC and the host compiler both read it.
//
// Note [argument block]
//   Entry points take no parameters of their own. Everything that a kernel is given lies in one block:
//     TslHeader | views[V] | slots[S] | dims[D]
//   A *view* is one tensor: the primal, the gradient or the tangent of a parameter each have their own. A null `data`
//   means absent: loads give zero, stores and accumulations do nothing (an unwanted gradient, an output in a backward).
//   A *slot* is eight bytes that hold one component of a scalar, vector, matrix or array parameter, in the component's
//   own type at the slot's first byte, or a pointer. A *dim* is the value of one name of the shape language.
#pragma once

enum { kTslMaxDims = 5 };
// Of a wave that is a tile: Note [tiled waves] in device_loop.h.
enum { kTslTileWidth = 8, kTslTileHeight = 4 };

// The dims of an elementwise function's argument block: how many elements there are, low and high word, and the sizes that they
// are counted by where a tensor's strides matter, outermost first; the last is a row's length. On a GPU also: how many
// rows there are (two words), the logarithm of how many threads stand beside each other in a row, how many tiles do, and
// how many rows a thread takes.
enum {
  kTslMapTotal = 0,
  kTslMapRank = 2,
  kTslMapSizes = 3,
  kTslMapRows = kTslMapSizes + kTslMaxDims,
  kTslMapWidth = kTslMapRows + 2,
  kTslMapColumns,
  kTslMapRowsEach,
  kTslMapDims
};

// Floats of additions in straight-line code that lanes sum together: compiler/emit/addition_runs.h, wave_sums.h.
enum { kTslMostInRun = 12 };

// Slots that say how each component of a generated input is made: Note [generated elements] in map_generated.h.
enum { kTslGeneratedWords = 4 };

// Note [value gradients]
//   The gradient of a value is a sum over all threads. Its slot is null where nobody wants it; else it points to numbers
//   [components, places] that add up to it over the places. They are float64 on the host; on a GPU of a type wide enough
//   to add in, float for halves. Those who add are the blocks on the host, and on a GPU the waves of each block: 32
//   threads with consecutive numbers (x fastest), the block's last wave possibly shorter. Each has a place of its own, so
//   the sum does not depend on who comes first. A GPU's wave stores to it; on the host a block adds, to zero at first.
//   Where that would be too much memory, the low bits of the pointer are a number s above zero: then 2^s neighbours
//   share a place, zero at first, to which they add atomically.
enum { kTslMostSharing = 63 };

// Note [gradient slots]
//   Each differentiable view has a few slots of its own, beginning at its descriptor's `gradient_slots`. What they hold
//   depends on how the gradient is gathered; only a backward fills them.
//     every kind: owners    debug mode, if an access to the view promises something, else null: four words an element, Note
//                           [owners] in checks.h
//     replicated: replicas  how many copies of the gradient there are; 1 where the kernel takes from it (an output)
//                 stride    bytes from one to the next
//     recorded:   values, indices   [N, threads] each: what to add, and where (the element's linear index, int64); null
//                           where the kernel takes from the gradient: then all is added atomically
//                 overflow  a count (unsigned 64-bit) of the additions that found no slot and were made atomically
//   The memory of replicated and recorded gradients is of a type wide enough to add in: float for halves.
enum TslGradientSlot {
  kTslOwners = 0,
  kTslReplicas = 1,
  kTslReplicaStride = 2,
  kTslValues = 1,
  kTslIndices = 2,
  kTslOverflow = 3,
};

// Note [addition targets]
//   Where an addition goes is told by one word, so that the lanes of a wave compare it at once: the view's number plus one above the
//   element's number, which has so many bits. A launch whose tensors have more numbers runs a kernel that does not compare.
constexpr int tsl_bits_of(unsigned most) { return most == 0 ? 0 : 1 + tsl_bits_of(most / 2); }
constexpr int tsl_element_bits(int views) { return views < 4 ? 30 : 32 - tsl_bits_of(static_cast<unsigned>(views)); }

struct TslView {
  unsigned char* data;
  long long strides[kTslMaxDims];  // bytes; 0 for expanded dimensions, may be negative
  unsigned sizes[kTslMaxDims];     // in elements; a float3 view counts float3s
  unsigned dimensionCount;
};

// What a check has found: the first fault of a launch. The access is then left out and the kernel goes on.
enum TslFaultKind {
  kTslNoFault = 0,
  kTslOutOfBounds = 1,  // index[dimension] is not below `size`
  kTslWrongRank = 2,    // `count` indices for a view of `size` dimensions
  kTslNotFixed = 3,     // loadFixed at `index` while another lane of the wave loads another element
  kTslUsedTwice = 4,    // loadUniform, loadOnce or storeOnce at `index`, which the thread `other` (linear) has used before
  kTslLongLoop = 5,     // a loop has no room for what more iterations leave
  kTslLocalIndex = 6,   // an index (its low and high word) into `size` elements of an array (0), a matrix (1) or a vector (2),
                        // as `other` says; or into a view (3), for which it is too large
  kTslDivision = 7,     // of integers by zero (0), or the smallest one by -1 (1), as `other` says
  kTslStopped = 8,      // a loop that was stopped from outside
  kTslNoDimension = 9,  // the size or stride of dimension index[0] of a view of `size` dimensions
  kTslUsedBesidePromise = 10,  // any other access at `index`, which the thread `other` has used in one of those ways
};

struct TslFault {
  unsigned kind;  // written first, by compare-and-swap: whoever finds kTslNoFault writes the rest
  int view;       // number in the argument block
  int dimension;
  unsigned count;  // of indices
  unsigned index[kTslMaxDims];
  unsigned size;
  unsigned other;
  unsigned file, line;  // of the user's statement; file is an index into DeviceText::files
  unsigned thread[3], block[3];
  unsigned stop;  // other than 0: the launch is to end (Note [stopped launches] in polls.h)
};

struct TslHeader {
  unsigned grid[3];   // blocks, as the kernel sees gridDim
  unsigned block[3];  // threads, as the kernel sees blockDim
  TslFault* fault;    // on the device; null where nothing is checked
};

// The last two dimensions of a view of matrices as the hardware fetches tiles of them, as the driver encodes them: Note
// [matrix kernels] in mma.h.
struct alignas(64) TslMatrixMap {
  unsigned long long descriptor[16];
};
// What a kernel must know of them itself. All views' lie together: each line of the arguments that a block needs before it
// can fetch takes long to come.
struct TslMatrixLayout {
  int contiguous;    // which of the two dimensions is: 0 or 1; -1: there is no map
  unsigned batches;  // where a view has matrices one after the other; 1: one for all
};

static_assert(sizeof(TslMatrixMap) == 128, "the run-time and device code must agree on TslMatrixMap");
static_assert(sizeof(TslMatrixLayout) == 8, "the run-time and device code must agree on TslMatrixLayout");
static_assert(sizeof(TslView) == 72, "the run-time and device code must agree on TslView");
static_assert(sizeof(TslHeader) == 32, "the run-time and device code must agree on TslHeader");
