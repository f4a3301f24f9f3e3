#include "backend/cuda/matrix_maps.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "foreign/driver_api.h"
#include "source/marks.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr int kUInt16 = 1, kUInt32 = 2;  // as the driver numbers them: a copy does not interpret elements
constexpr int kNoInterleaving = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3, kPromotion256 = 3,
              kZerosOutside = 0;
constexpr unsigned kSlab = 64;  // columns of a box where K is not contiguous, at most
constexpr uint64_t kAlignment = 16;
constexpr size_t kMostKnown = 256;  // launches whose maps are kept; a map takes 136 bytes

TslView view_of(const char* args, int view) {
  TslView copy;
  std::memcpy(&copy, args + sizeof(TslHeader) + sizeof(TslView) * view, sizeof copy);
  return copy;
}

bool is_pitch(long long stride) { return stride > 0 && stride % kAlignment == 0 && stride < (1ll << 40); }

// Strides of dimensions with one element mean nothing.
long long stride_or(const TslView& view, unsigned d, long long other) {
  return view.sizes[d] == 1 ? other : view.strides[d];
}

// Rows are stored up to the next multiple of 16 bytes, where something else may lie.
bool stores_more(const TslView& view, unsigned axis, unsigned bytes) {
  return static_cast<uint64_t>(view.sizes[view.dimensionCount - 2 + axis]) * bytes % kAlignment != 0;
}

TslMatrixLayout layout_of(const MatrixMapRequest& request, const TslView& view) {
  const bool is_batch = view.dimensionCount > 2 && view.strides[0] != 0;
  int axis = driver().tensor_map_encode ? contiguous_axis(view, request.bytes) : -1;
  const bool is_stored = request.depth_axis == MatrixMapRequest::kStored;
  if (axis >= 0 && is_stored && stores_more(view, static_cast<unsigned>(axis), request.bytes)) axis = -1;
  return {axis, is_batch ? view.sizes[0] : 1};
}

TslMatrixMap encoded(const MatrixMapRequest& request, const TslView& view, const TslMatrixLayout& layout) {
  const unsigned d = view.dimensionCount - 2;
  const auto inner = d + static_cast<unsigned>(layout.contiguous),
             outer = d + 1 - static_cast<unsigned>(layout.contiguous);
  const bool along_depth = layout.contiguous == request.depth_axis;
  const long long packed = (static_cast<long long>(view.sizes[inner]) * request.bytes + 15) / 16 * 16;
  const auto pitch = static_cast<uint64_t>(stride_or(view, outer, packed));
  const uint64_t sizes[] = {view.sizes[inner], view.sizes[outer], layout.batches};
  const uint64_t strides[] = {pitch, layout.batches > 1 ? static_cast<uint64_t>(view.strides[0]) : pitch};
  const uint32_t box[] = {along_depth ? request.steps : std::min(request.extent, kSlab),
                          along_depth ? request.extent : request.steps, 1};
  const uint32_t row_bytes = box[0] * request.bytes;  // as wide as the swizzle
  const int swizzle = row_bytes == 128 ? kSwizzle128 : row_bytes == 64 ? kSwizzle64 : kSwizzle32;
  const uint32_t steps[] = {1, 1, 1};
  TslMatrixMap map;  // aligned as the driver wants it
  check_driver(driver().tensor_map_encode(map.descriptor, request.bytes == 2 ? kUInt16 : kUInt32, 3u, view.data, sizes,
                                          strides, box, steps, kNoInterleaving, swizzle, kPromotion256, kZerosOutside),
               "cuTensorMapEncodeTiled", "describing a matrix to the GPU");
  return map;
}

std::string describe_tile(int number) {
  const std::string shape = c10::str(number / 10000, " x ", number / 10 % 1000);
  return number % 10 > 1 ? c10::str(shape, " by ", number % 10, " blocks") : shape;
}

}  // namespace

int blocks_of_tile(const std::string& op, const std::set<std::string>& marks) {
  const std::vector<int> tiles = numbers_of(marks, "tile");
  if (tiles.size() > 1) {
    throw_compile_error(op, ": all products of a kernel must have the same tile, but this one has ",
                        describe_tile(tiles[0]), " and ", describe_tile(tiles[1]));
  }
  if (numbers_of(marks, "kind").size() > 1) {
    throw_compile_error(op,
                        ": all products of a kernel must be of one type and precision (or of float16 and bfloat16) ",
                        "and have the same stages and turns, but those of this one differ");
  }
  return tiles.empty() ? 1 : tiles[0] % 10;
}

std::vector<MatrixMapRequest> matrix_map_requests(const std::set<std::string>& marks) {
  std::vector<MatrixMapRequest> requests;
  for (const std::string& mark : marks) {
    std::istringstream words(mark);
    std::string word;
    MatrixMapRequest request;
    if (words >> word && word == "map" &&
        words >> request.view >> request.depth_axis >> request.extent >> request.bytes) {
      words >> request.steps;
      if (!words) request.steps = MatrixMapRequest().steps;
      requests.push_back(request);
    }
  }
  return requests;
}

bool has_one_map_a_view(const std::vector<MatrixMapRequest>& requests) {
  std::set<int> views;
  return std::all_of(requests.begin(), requests.end(),
                     [&](const MatrixMapRequest& request) { return views.insert(request.view).second; });
}

int contiguous_axis(const TslView& view, unsigned bytes) {
  const unsigned d = view.dimensionCount - 2;
  if (reinterpret_cast<uintptr_t>(view.data) % kAlignment != 0) return -1;
  for (unsigned i = 0; i < d; ++i) {
    if (i > 0 || (view.sizes[i] > 1 && view.strides[i] != 0 && !is_pitch(view.strides[i]))) return -1;
  }
  for (const int axis : {1, 0}) {
    const unsigned inner = d + static_cast<unsigned>(axis), outer = d + 1 - static_cast<unsigned>(axis);
    if (stride_or(view, inner, bytes) == bytes && is_pitch(stride_or(view, outer, kAlignment))) return axis;
  }
  return -1;
}

MatrixMaps::MatrixMaps(const KernelSource& source, const std::set<std::string>& marks)
    : requests_(matrix_map_requests(marks)),
      view_count_(static_cast<size_t>(source.view_count)),
      block_size_(argument_block_size(source)),
      layouts_offset_(matrix_layouts_offset(source)),
      maps_offset_(matrix_maps_offset(source)) {}

std::string MatrixMaps::make(const char* args) const {
  std::vector<TslMatrixLayout> layouts(view_count_, TslMatrixLayout{-1, 1});
  std::string block(maps_offset_ - layouts_offset_ + sizeof(TslMatrixMap) * view_count_, '\0');
  uint32_t hold = driver().tensor_map_encode && has_one_map_a_view(requests_) ? 1 : 0;
  for (const MatrixMapRequest& request : requests_) {
    const auto number = static_cast<size_t>(request.view);
    const TslView view = view_of(args, request.view);
    const TslMatrixLayout layout = layouts[number] = layout_of(request, view);
    const bool is_empty =
        std::find(view.sizes, view.sizes + view.dimensionCount, 0u) != view.sizes + view.dimensionCount;
    if (layout.contiguous < 0) {
      if (request.depth_axis != MatrixMapRequest::kStored) hold = 0;
    } else if (!is_empty) {
      const TslMatrixMap map = encoded(request, view, layout);
      std::memcpy(block.data() + maps_offset_ - layouts_offset_ + sizeof map * number, &map, sizeof map);
    }
  }
  std::memcpy(block.data(), &hold, sizeof hold);
  std::memcpy(block.data() + sizeof hold, layouts.data(), sizeof(TslMatrixLayout) * layouts.size());
  return block;
}

const std::string& MatrixMaps::with_maps(const void* given, std::string& block) const {
  const char* args = static_cast<const char*>(given);
  static thread_local std::string key;  // keeps its memory from launch to launch
  key.clear();
  for (const MatrixMapRequest& request : requests_) {
    key.append(args + sizeof(TslHeader) + sizeof(TslView) * static_cast<size_t>(request.view), sizeof(TslView));
  }
  block.assign(args, block_size_);
  block.resize(layouts_offset_);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = known_.find(key);
  if (known == known_.end()) {
    if (known_.size() >= kMostKnown) known_.clear();
    known = known_.emplace(key, make(args)).first;
  }
  return block.append(known->second);
}

}  // namespace torch_slang
