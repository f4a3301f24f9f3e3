#include "backend/cuda/copies.h"

#include <cstdint>

namespace torch_slang {
namespace {

constexpr const char* kCopying = "copying from a GPU";

// That nobody else has: torch's own come from a pool, and one of them may be captured at any moment.
class OwnStream {
 public:
  OwnStream() { check_driver(driver().stream_create(&stream_, kCudaStreamNonBlocking), "cuStreamCreate", kCopying); }
  ~OwnStream() { driver().stream_destroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  void copy(void* to, const void* from, size_t bytes) {
    check_driver(driver().copy_to_host(to, reinterpret_cast<CudaAddress>(from), bytes, stream_), "cuMemcpyDtoHAsync",
                 kCopying);
  }
  void wait() { check_driver(driver().stream_synchronize(stream_), "cuStreamSynchronize", kCopying); }

 private:
  CudaStream stream_ = nullptr;
};

}  // namespace

void copy_beside_captures(const CudaGpu& gpu, const c10::Event& made, void* to, const void* from, size_t bytes) {
  const CurrentContext context(gpu);
  const RelaxedCapture relaxed;
  made.synchronize();
  OwnStream stream;
  stream.copy(to, from, bytes);
  stream.wait();
}

}  // namespace torch_slang
