// The tensor maps that a kernel fetches tiles of matrices by: Note [matrix kernels] in prelude/mma.h.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "prelude/abi.h"

namespace torch_slang {

// What the mark `map 0 1 128 2`, or `map 0 1 128 2 32`, asks for.
struct MatrixMapRequest {
  static constexpr int kStored = 2;
  int view = 0;
  int depth_axis = 0;    // which of the last two dimensions runs along K; kStored: the view is no operand
  unsigned extent = 64;  // of a tile, across K
  unsigned bytes = 2;    // of an element
  unsigned steps = 64;   // of a tile, along K
};

// How many blocks make a tile. Throws CompileError if the kernel multiplies tiles of more than one shape or kind.
int blocks_of_tile(const std::string& op, const std::set<std::string>& marks);

std::vector<MatrixMapRequest> matrix_map_requests(const std::set<std::string>& marks);

// Whether each view has one map. If not, as where one is the left operand of one product and the right one of another, the
// kernel fetches without maps.
bool has_one_map_a_view(const std::vector<MatrixMapRequest>& requests);

// Which of the last two dimensions the hardware can take for the contiguous one, or -1: the matrices do not begin at
// multiples of 16 bytes, say.
int contiguous_axis(const TslView& view, unsigned bytes);

class MatrixMaps {
 public:
  MatrixMaps(const KernelSource& source, const std::set<std::string>& marks);

  // The argument block of a launch with its maps. They are kept by what the views say, for the next launch of the same.
  const std::string& with_maps(const void* args, std::string& block) const;

 private:
  // The argument block from layouts_offset_ on.
  std::string make(const char* args) const;

  const std::vector<MatrixMapRequest> requests_;
  const size_t view_count_, block_size_, layouts_offset_, maps_offset_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::string> known_;  // by the views that are mapped
};

}  // namespace torch_slang
