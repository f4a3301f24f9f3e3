// The CPU back end: text to a shared object by the machine's C++ compiler, kept in the disk cache, loaded from there.
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "backend/backend.h"
#include "backend/cpu/cpu_kernel.h"
#include "backend/launch_shape.h"
#include "cache/cache.h"
#include "cache/turn.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "device_compilers/host/host_compiler.h"
#include "device_compilers/host/launcher_text.h"
#include "device_compilers/host/processor.h"
#include "device_compilers/host/workarounds.h"
#include "source/marks.h"
#include "source/record.h"
#include "source/source_text.h"

namespace torch_slang {
namespace {

// The same as on NVIDIA's devices, so that a program that runs here runs there. Shared memory alone has no limit here.
const LaunchLimits kLimits = {{0x7fffffff, 0xffff, 0xffff}, {1024, 1024, 64}, 1024, "CPU"};

struct LoadedObject {
  DynamicLibrary library;
  std::set<std::string> marks;
};

std::optional<LoadedObject> load_cached(const std::string& key, const KernelSource& source) {
  std::string content;
  auto library = cache::load_object(key, &content);
  if (!library) return std::nullopt;
  return LoadedObject{std::move(*library), find_marks(content, source.view_count)};
}

// The loader maps the object: its file need not stay.
LoadedObject compile_and_load(const HostCompiler& compiler, const std::vector<std::string>& flags,
                              const std::string& key, const std::string& text, const KernelSource& source) {
  TemporaryFolder folder;
  std::string output = folder.file("kernel.so");
  compile_shared_object(compiler, flags, source, text, output);
  std::string content = read_file_or_throw(output);
  if (cache::write(cache::Kind::Object, key, content)) {
    if (auto cached = load_cached(key, source)) return std::move(*cached);
  }
  return {DynamicLibrary::open(output), find_marks(content, source.view_count)};
}

class CpuBackend final : public Backend {
 public:
  std::shared_ptr<const Kernel> load(const KernelSource& source, c10::Device device) override {
    TORCH_INTERNAL_ASSERT(device.is_cpu());
    HostCompiler compiler = find_host_compiler(source.op);
    const bool has_checks = source.checks != Checks::None;
    std::vector<std::string> flags =
        with_workarounds(compiler, host_compiler_flags(source.op, source.fast_math, has_checks), source.text);
    if (!source.map) flags = with_exact_marks(source.op, std::move(flags));
    std::string text = assemble_source(source, host_launcher_text(source));
    record_text(source.op, "cpu", text);
    std::string key = object_digest(compiler, flags, text).add("cpu").hex();

    LoadedObject object = cache::find_or_make(
        cache::Kind::Object, key, source.op, [&] { return load_cached(key, source); },
        [&] { return compile_and_load(compiler, flags, key, text, source); });
    return std::make_shared<CpuKernel>(source, std::move(object.library), std::move(object.marks));
  }

  void check_launch(const std::string& op, const LaunchShape& shape, c10::Device device) override {
    TORCH_INTERNAL_ASSERT(device.is_cpu());
    check_limits(op, shape, kLimits);
  }

  uint64_t threads_at_once(c10::Device) override { return 0; }

  bool is_capturing(c10::Device) override { return false; }

  void copy_to_cpu(c10::Device, const c10::Event&, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  std::string hardware(c10::Device) override { return cpu_name(); }

  double seconds(c10::Device, c10::function_ref<void()> work, int rounds) override {
    using Clock = std::chrono::steady_clock;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < rounds; ++i) {
      const auto start = Clock::now();
      work();
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return least;
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend* backend = new CpuBackend();  // never destroyed: kernels may be launched while the process ends
  return *backend;
}

}  // namespace torch_slang
