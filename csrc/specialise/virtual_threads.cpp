#include "specialise/virtual_threads.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>

#include "backend/launch_shape.h"
#include "prelude/abi.h"

namespace torch_slang {
namespace {

// What a thread should have in flight. On an H200 sqr is fastest with 8 floats, 4 doubles and, in its backward, with 4 and 2
// pairs of them; a kernel that reads 8 floats for each element, with one thread each.
constexpr int64_t kBytesInFlight = 32;
// The same where it comes in vectors: one of them. sqr's forward takes 0.2536 ms for 2^27 floats then, and 0.2625 with two.
constexpr int64_t kBytesInVector = 16;
constexpr int kMost = 16;
constexpr size_t kMostText = 256 << 10;  // bytes of it that the threads of one may have together
// That the lanes of a thread may have together: more would take too many registers.
constexpr int64_t kBytesInVectors = 128;

constexpr double kMostlyWhole = 0.5;

// Of tiles along an axis whose threads share elements.
constexpr int kMostRepeats = 16;

constexpr uint64_t kWorthMeasuring = 16;  // times what the device runs at once
constexpr uint64_t kWorthMeasuringSums =
    1;  // the same where additions may be summed: then threads mostly have more to do
constexpr size_t kMostTried = 10;
constexpr double kHardly = 0.985;  // of another's time: a smaller gain may be a loss in another run

std::atomic<bool> for_all{false}, all_tiled{false};
std::atomic<WaveSums> wave_sums{WaveSums::Measured};

uint64_t threads_of(const LaunchShape& shape) {
  return threads_in_block(shape) * shape.grid[0] * uint64_t{shape.grid[1]} * shape.grid[2];
}

// Whether enough threads are left when each runs this many of the launch.
bool fills(const ThreadFacts& facts, int count) {
  return threads_of(facts.shape) >= 2 * static_cast<uint64_t>(count) * facts.at_once ||
         for_all.load(std::memory_order_relaxed);
}

// How much of the launch lies in whole tiles of this length along the axis, in blocks.
double whole(const ThreadFacts& facts, int axis, int length) {
  const uint64_t threads = static_cast<uint64_t>(length) * facts.shape.block[axis];
  if (facts.bounds[axis] == 0) return 0;
  return static_cast<double>(facts.bounds[axis] / threads * threads) / static_cast<double>(facts.bounds[axis]);
}

// Whether waves of this launch can be tiles, and are not those already that they would be. `count`: of virtual threads, which
// kernels whose threads meet do not have, whatever is said here.
bool may_tile(const ThreadFacts& facts, int count) {
  const uint32_t* const block = facts.shape.block;
  return facts.may_tile && (count == 1 || facts.runs_one) && facts.shared_axis < 0 && block[0] > kTslTileWidth &&
         block[0] % kTslTileWidth == 0 && block[1] % kTslTileHeight == 0;
}

// Tiles lie along the axis that has the most in whole ones, the outer axis if two have as much: what threads read of a row
// or column that they share is then read once. Where threads share elements of gradients, along the axis that they do.
VirtualThreads arranged(const ThreadFacts& facts, int lanes, int groups, int repeats, bool adds_apart,
                        bool tiles_waves) {
  VirtualThreads threads;
  const WaveSums setting = wave_sums_setting();
  threads.adds_apart = facts.must_add_apart ||
                       (facts.may_sum && (setting == WaveSums::Measured ? adds_apart : setting == WaveSums::Never));
  threads.count = lanes * groups;
  threads.tiles_waves = tiles_waves && may_tile(facts, threads.count);
  threads.lanes = lanes;
  threads.repeats = repeats;
  threads.shares = facts.shared_axis >= 0;
  threads.is_flat = facts.is_flat;
  if (lanes > 1 || threads.shares) std::copy_n(facts.shape.block, 3, threads.block);
  if (threads.shares) {
    threads.axis = facts.shared_axis;
    return threads;
  }
  if (groups == 1) return threads;
  double most = -1;
  for (int axis = 0; axis < 3; ++axis) {
    const double part = whole(facts, axis, groups * (axis == 0 ? lanes : 1));
    if (part < most) continue;
    most = part;
    threads.axis = axis;
  }
  return threads;
}

bool may_repeat(const ThreadFacts& facts, const VirtualThreads& threads, int repeats) {
  if (repeats <= 1) return repeats == 1;
  if (!threads.shares || repeats > kMostRepeats) return false;
  const auto half = static_cast<uint32_t>(repeats / 2 * threads.groups());
  return fills(facts, threads.count * repeats) && facts.shape.grid[threads.axis] / half > 1;
}

}  // namespace

bool set_virtual_threads_for_all(bool value) { return for_all.exchange(value); }
WaveSums set_wave_sums(WaveSums value) { return wave_sums.exchange(value); }
bool set_tiled_waves_for_all(bool value) { return all_tiled.exchange(value); }
WaveSums wave_sums_setting() { return wave_sums.load(std::memory_order_relaxed); }

VirtualThreads likely_threads(const ThreadFacts& facts) {
  if (facts.at_once == 0) return {};
  int lanes = facts.lanes;
  while (lanes > 1 && (lanes * facts.bytes > kBytesInVectors || facts.shape.block[0] % lanes != 0 ||
                       whole(facts, 0, lanes) < kMostlyWhole || !fills(facts, lanes)))
    lanes /= 2;
  int groups = 1;
  const int64_t enough = lanes > 1 ? kBytesInVector : kBytesInFlight;
  while (lanes * groups < kMost && lanes * groups * facts.bytes < enough && fills(facts, lanes * groups)) groups *= 2;
  VirtualThreads threads = arranged(facts, lanes, groups, 1, false, all_tiled.load(std::memory_order_relaxed));
  while (may_repeat(facts, threads, 2 * threads.repeats)) threads.repeats *= 2;
  return threads;
}

VirtualThreads allowed_threads(const VirtualThreads& wanted, const TextFacts& text) {
  VirtualThreads threads;
  if (!text.has_waves && !text.has_barriers && !text.multiplies) threads = wanted;
  while (threads.count > 1 && threads.count * text.size > kMostText) threads.count /= 2;
  // Lanes and repeated threads keep numbers until all have run.
  const bool may_keep = !text.is_checked && text.has_bounds;
  threads.lanes = may_keep ? std::min(threads.lanes, threads.count) : 1;
  threads.shares = may_keep && threads.shares;
  if (!threads.shares) threads.repeats = 1;
  threads.adds_apart = false;  // until additions have shown
  threads.tiles_waves = wanted.tiles_waves && !text.has_waves && !text.multiplies;
  threads.is_flat = (wanted.is_flat || text.has_samples) && !text.multiplies;
  return threads;
}

bool is_worth_measuring(const ThreadFacts& facts) {
  const uint64_t enough = facts.may_sum ? kWorthMeasuringSums : kWorthMeasuring;
  return facts.at_once > 0 && facts.may_be_measured && threads_of(facts.shape) >= enough * facts.at_once &&
         !for_all.load(std::memory_order_relaxed) && wave_sums_setting() == WaveSums::Measured;
}

std::vector<VirtualThreads> next_to(const ThreadFacts& facts, const VirtualThreads& from) {
  std::vector<VirtualThreads> all;
  const auto add_any = [&](int lanes, int groups, int repeats, bool adds_apart, bool tiles_waves) {
    if (lanes < 1 || lanes > facts.lanes || facts.shape.block[0] % lanes != 0) return;
    if (groups < 1 || lanes * groups > kMost || (lanes * groups > 1 && !fills(facts, lanes * groups))) return;
    const VirtualThreads threads = arranged(facts, lanes, groups, repeats, adds_apart, tiles_waves);
    const bool is_known = threads == from || std::find(all.begin(), all.end(), threads) != all.end();
    if (may_repeat(facts, threads, repeats) && !is_known) all.push_back(threads);
  };
  const int lanes = from.lanes, groups = from.groups(), repeats = from.repeats;
  add_any(lanes, groups, repeats, !from.adds_apart, from.tiles_waves);
  add_any(lanes, groups, repeats, from.adds_apart, !from.tiles_waves);
  if (facts.runs_one) return all;
  const auto add = [&](int l, int g, int r) { add_any(l, g, r, from.adds_apart, from.tiles_waves); };
  add(lanes, 2 * groups, repeats);
  add(lanes, groups / 2, repeats);
  add(2 * lanes, groups, repeats);
  add(lanes / 2, groups, repeats);
  add(lanes / 2, 2 * groups, repeats);
  add(lanes, groups, 2 * repeats);
  add(lanes, groups, repeats / 2);
  return all;
}

VirtualThreads fastest_threads(const ThreadFacts& facts, const VirtualThreads& start,
                               c10::function_ref<std::vector<double>(const std::vector<VirtualThreads>&)> seconds) {
  std::vector<VirtualThreads> known, ring = next_to(facts, start);
  ring.insert(ring.begin(), start);
  VirtualThreads best = start;
  double least = std::numeric_limits<double>::infinity();  // of best, as soon as that was timed
  while (!ring.empty() && known.size() < kMostTried) {
    const std::vector<double> times = seconds(ring);
    if (times[0] <= 0 && known.empty()) break;  // nothing to compare with
    const double before = known.empty() ? times[0] : least;
    for (size_t i = 0; i < ring.size(); ++i) {
      if (times[i] <= 0 || times[i] >= least || (ring[i] != start && times[i] >= kHardly * before)) continue;
      least = times[i];
      best = ring[i];
    }
    known.insert(known.end(), ring.begin(), ring.end());
    if (best == start || least >= before) break;
    ring = next_to(facts, best);
    const auto is_known = [&](const auto& threads) {
      return std::find(known.begin(), known.end(), threads) != known.end();
    };
    ring.erase(std::remove_if(ring.begin(), ring.end(), is_known), ring.end());
  }
  return best;
}

std::string describe(const VirtualThreads& threads) {
  return c10::str("lanes=", threads.lanes, ", groups=", threads.groups(), ", repeats=", threads.repeats,
                  threads.adds_apart ? ", apart=1" : "", threads.tiles_waves ? ", tiles=1" : "");
}

std::optional<VirtualThreads> parse_threads(const ThreadFacts& facts, const std::string& text) {
  const auto is_power = [](int number) { return number > 0 && (number & (number - 1)) == 0; };
  int lanes = 0, groups = 0, repeats = 0;
  constexpr const char* kForm = "lanes=%d, groups=%d, repeats=%d";
  if (std::sscanf(text.c_str(), kForm, &lanes, &groups, &repeats) < 3) return std::nullopt;
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  const bool may_be = is_power(lanes) && lanes <= facts.lanes && facts.shape.block[0] % lanes == 0 &&
                      is_power(groups) && groups <= kMost / lanes && is_power(repeats) &&
                      repeats <= (facts.shared_axis >= 0 ? kMostRepeats : 1);
  return may_be ? std::optional(arranged(facts, lanes, groups, repeats, has(", apart=1"), has(", tiles=1")))
                : std::nullopt;
}

}  // namespace torch_slang
