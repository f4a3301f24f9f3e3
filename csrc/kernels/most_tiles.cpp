#include "kernels/most_tiles.h"

#include <atomic>

namespace torch_slang {
namespace {

std::atomic<int64_t> most = int64_t{1} << 24;

}  // namespace

int64_t most_tiles() { return most.load(std::memory_order_relaxed); }

int64_t set_most_tiles(int64_t count) { return most.exchange(count); }

}  // namespace torch_slang
