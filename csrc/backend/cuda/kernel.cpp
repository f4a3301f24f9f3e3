#include "backend/cuda/kernel.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/log.h"
#include "source/marks.h"
#include "source/record.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr uint32_t kPreferredBlock = 256;

// Errors that an earlier kernel or copy left behind: every later call reports them.
constexpr CudaResult kIllegalAddress = 700;
constexpr CudaResult kFirstSticky = 714;  // hardware stack error, illegal instruction, ..., launch failed
constexpr CudaResult kLastSticky = 719;

bool comes_from_earlier_work(CudaResult result) {
  return result == kIllegalAddress || (result >= kFirstSticky && result <= kLastSticky);
}

// The grid's y is the number of a sample: Note [samples] in backend/samples.h.
constexpr uint64_t kMostSamples = 65535;

// Of the numbers behind this word, or 0.
uint32_t largest(const std::set<std::string>& marks, std::string_view word) {
  int most = 0;
  for (const int number : numbers_of(marks, word)) most = std::max(most, number);
  return static_cast<uint32_t>(most);
}

void check_tiles(const std::string& op, const LaunchShape& launch, uint32_t blocks_of_tile) {
  constexpr uint32_t kThreads = 256;
  if (launch.block[0] != kThreads || launch.block[1] != 1 || launch.block[2] != 1) {
    throw_launch_error(op, ": cannot launch a ", describe(launch),
                       ": expected blocks of [256, 1, 1] threads of a kernel that multiplies matrices");
  }
  if (launch.grid[0] % blocks_of_tile != 0) {
    throw_launch_error(op, ": cannot launch a ", describe(launch), ": expected the grid's x to be a multiple of ",
                       blocks_of_tile, ", since ", blocks_of_tile, " blocks make a tile, but got ", launch.grid[0]);
  }
}

}  // namespace

CudaKernel::CudaKernel(const KernelSource& source, const CudaGpu& gpu, CudaBinary binary)
    : op_(source.op),
      gpu_(gpu),
      args_size_(argument_block_size(source)),
      threads_(source.threads),
      sample_dims_(source.sample_dims),
      sample_steps_offset_(sample_steps_offset(source)),
      marks_(std::move(binary.marks)) {
  blocks_of_tile_ = static_cast<uint32_t>(blocks_of_tile(op_, marks_));
  if (multiplies(source)) maps_ = std::make_unique<const MatrixMaps>(source, marks_);
  load(binary.image);
  if (maps_) prepare_tiles();
  log_debug(op_, " on ", gpu.target().name, ": ", registers_, " registers a thread, at most ", max_threads_,
            " threads a block");
}

void CudaKernel::load(const std::string& image) {
  const std::string what = op_ + ": loading the kernel on " + gpu_.target().name;
  const CurrentContext context(gpu_);
  const RelaxedCapture relaxed;
  CudaModule module = nullptr;  // see Note [modules stay]
  check_driver(driver().module_load_data(&module, image.c_str()), "cuModuleLoadData", what);
  check_driver(driver().module_get_function(&function_, module, kCudaEntry), "cuModuleGetFunction", what);
  // The driver loads functions lazily, else at their first launch, which may stand in a capture.
  if (driver().function_load) check_driver(driver().function_load(function_), "cuFuncLoad", what);

  int max_threads = 0;
  check_driver(driver().function_get_attribute(&max_threads, kCudaFunctionMaxThreads, function_), "cuFuncGetAttribute",
               what);
  check_driver(driver().function_get_attribute(&registers_, kCudaFunctionRegisters, function_), "cuFuncGetAttribute",
               what);
  check_driver(driver().function_get_attribute(&local_bytes_, kCudaFunctionLocalBytes, function_), "cuFuncGetAttribute",
               what);
  check_driver(driver().function_get_attribute(&group_shared_bytes_, kCudaFunctionSharedBytes, function_),
               "cuFuncGetAttribute", what);
  max_threads_ = static_cast<uint32_t>(max_threads);
}

// Note [matrix kernels] in prelude/mma.h.
void CudaKernel::prepare_tiles() {
  tile_threads_ = largest(marks_, "block");
  shared_bytes_ = largest(marks_, "shared");
  cluster_ = std::max(largest(marks_, "cluster"), 1u);
  const std::string what = op_ + ": loading the kernel on " + gpu_.target().name;
  const CurrentContext context(gpu_);
  check_driver(driver().function_set_attribute(function_, kCudaFunctionDynamicShared, static_cast<int>(shared_bytes_)),
               "cuFuncSetAttribute",
               what + ", which takes " + std::to_string(shared_bytes_) + " bytes of shared memory");
  int blocks = 0;
  check_driver(driver().occupancy(&blocks, function_, static_cast<int>(tile_threads_), shared_bytes_),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor", what);
  resident_tiles_ = static_cast<uint32_t>(std::max(blocks, 1) * gpu_.multiprocessors());
  if (cluster_ > 1) {
    CudaLaunchAttribute attribute;
    const CudaLaunchConfig config = in_clusters({{cluster_, 1, 1}, {tile_threads_, 1, 1}}, nullptr, attribute);
    int clusters = 0;
    check_driver(driver().cluster_occupancy(&clusters, function_, &config), "cuOccupancyMaxActiveClusters", what);
    resident_tiles_ = static_cast<uint32_t>(std::max(clusters, 1)) * cluster_;
  }
}

LaunchShape CudaKernel::on_device(const LaunchShape& shape) const {
  if (maps_) {
    const LaunchShape row = in_one_row(op_, shape);
    return {{std::min(row.grid[0], resident_tiles_), 1, 1}, {tile_threads_, 1, 1}};
  }
  LaunchShape real = shape;
  const auto divide = [](uint32_t& blocks, int by) { blocks = (blocks - 1) / static_cast<uint32_t>(by) + 1; };
  divide(real.grid[threads_.axis], threads_.groups() * threads_.repeats);
  divide(real.grid[0], threads_.lanes);
  return threads_.is_flat ? in_one_row(op_, real) : real;
}

void CudaKernel::check_args(size_t args_size) const {
  TORCH_INTERNAL_ASSERT(args_size >= args_size_, op_, ": the argument block has ", args_size,
                        " bytes, the kernel expects ", args_size_);
}

void CudaKernel::launch(const LaunchShape& launch, const void* args, size_t args_size) const {
  check_args(args_size);
  TORCH_INTERNAL_ASSERT(sample_dims_ == 0, op_, " is a kernel for samples");
  record_launch(op_, "cuda", [&] { return describe(launch); });
  maps_ ? launch_tiles(launch, args) : launch_on(on_device(launch), args);
}

void CudaKernel::launch_tiles(const LaunchShape& launch, const void* args) const {
  check_tiles(op_, launch, blocks_of_tile_);
  static thread_local std::string block;  // keeps its memory from launch to launch
  launch_on(on_device(launch), maps_->with_maps(args, block).data());
}

void CudaKernel::launch_samples(const LaunchShape& launch, const void* args, size_t args_size,
                                const Samples& samples) const {
  check_args(args_size);
  record_launch(op_, "cuda", [&] { return describe(launch, samples); });
  const uint64_t count = samples.count();
  if (maps_) {
    c10::SmallVector<char, 1024> own(args_size);
    for (uint64_t sample = 0; sample < count; ++sample) {
      std::memcpy(own.data(), args, args_size);
      move_to_sample(samples, sample, own.data());
      launch_tiles(launch, own.data());
    }
    return;
  }
  TORCH_INTERNAL_ASSERT(sample_dims_ == static_cast<int>(samples.sizes.size()), op_, " has another number of samples");
  const size_t bytes_of_steps = samples.steps.size() * sizeof(int64_t), bytes_of_sizes = 4 * samples.sizes.size();
  c10::SmallVector<char, 1024> block(sample_steps_offset_ + bytes_of_steps + bytes_of_sizes + 16, 0);
  std::memcpy(block.data(), args, std::min(args_size, sample_steps_offset_));
  std::memcpy(block.data() + sample_steps_offset_, samples.steps.data(), bytes_of_steps);
  char* const sizes = block.data() + sample_steps_offset_ + bytes_of_steps;
  std::memcpy(sizes, samples.sizes.data(), bytes_of_sizes);
  LaunchShape shape = on_device(launch);
  for (uint64_t first = 0; first < count; first += shape.grid[1]) {
    const auto number = static_cast<uint32_t>(first);
    std::memcpy(sizes + bytes_of_sizes, &number, sizeof number);
    shape.grid[1] = static_cast<uint32_t>(std::min(count - first, kMostSamples));
    launch_on(shape, block.data());
  }
}

// A kernel of matrices has blocks of its own.
bool CudaKernel::fits(const LaunchShape& shape) const { return maps_ || threads_in_block(shape) <= max_threads_; }

void CudaKernel::launch_on(const LaunchShape& shape, const void* args) const {
  if (threads_in_block(shape) > max_threads_) refuse_block(shape);
  const CurrentContext context(gpu_);
  void* parameters[] = {const_cast<void*>(args)};  // the driver copies the block
  const CudaResult result = cluster_ > 1
                                ? launch_clusters(shape, parameters)
                                : driver().launch_kernel(function_, shape.grid[0], shape.grid[1], shape.grid[2],
                                                         shape.block[0], shape.block[1], shape.block[2], shared_bytes_,
                                                         current_stream(gpu_), parameters, /*extra=*/nullptr);
  if (result != kCudaSuccess) fail_launch(result, shape);
}

CudaResult CudaKernel::launch_clusters(const LaunchShape& shape, void** parameters) const {
  CudaLaunchAttribute attribute;
  const CudaLaunchConfig config = in_clusters(shape, current_stream(gpu_), attribute);
  return driver().launch_kernel_ex(&config, function_, parameters, /*extra=*/nullptr);
}

CudaLaunchConfig CudaKernel::in_clusters(const LaunchShape& shape, CudaStream stream,
                                         CudaLaunchAttribute& attribute) const {
  attribute.id = kCudaClusterDimension;
  attribute.dimensions[0] = cluster_;
  attribute.dimensions[1] = attribute.dimensions[2] = 1;
  CudaLaunchConfig config;
  std::copy(std::begin(shape.grid), std::end(shape.grid), config.grid);
  std::copy(std::begin(shape.block), std::end(shape.block), config.block);
  config.shared_bytes = shared_bytes_;
  config.stream = stream;
  config.attributes = &attribute;
  config.attribute_count = 1;
  return config;
}

void CudaKernel::fail_launch(CudaResult result, const LaunchShape& shape) const {
  throw_launch_error(op_, ": launching a ", describe(shape), " on ", gpu_.target().name,
                     " failed: ", describe_driver_error(result, "cuLaunchKernel"),
                     comes_from_earlier_work(result)
                         ? ". This error may come from an earlier kernel; CUDA_LAUNCH_BLOCKING=1 shows which"
                         : "");
}

void CudaKernel::refuse_block(const LaunchShape& shape) const {
  throw_launch_error(op_, ": cannot launch a ", describe(shape), ": expected at most ", max_threads_,
                     " threads a block for this kernel, which has ", registers_, " registers a thread, on ",
                     gpu_.target().name, ", but got ", threads_in_block(shape));
}

uint32_t CudaKernel::resident_blocks() const {
  constexpr int kRegisters = 65536, kThreads = 2048;  // of a multiprocessor
  const int by_registers = kRegisters / (std::max(registers_, 1) * static_cast<int>(kMapThreads));
  const int blocks = std::clamp(by_registers, 1, kThreads / static_cast<int>(kMapThreads));
  return static_cast<uint32_t>(blocks * gpu_.multiprocessors());
}

uint32_t CudaKernel::preferred_block() const { return std::min(kPreferredBlock, max_threads_); }

}  // namespace torch_slang
