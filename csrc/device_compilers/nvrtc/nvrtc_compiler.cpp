#include "device_compilers/nvrtc/nvrtc_compiler.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "cache/cache.h"
#include "cache/turn.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/log.h"
#include "device_compilers/nvrtc/cubin.h"
#include "device_compilers/nvrtc/launcher_text.h"
#include "foreign/nvrtc_api.h"
#include "foreign/nvrtc_library.h"
#include "source/marks.h"
#include "source/record.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr const char* kSourceName = "torch_slang/kernel.cu";

// A text or binary that NVRTC hands out by two calls, one for its size (terminator included, for texts).
template <class GetSize, class Get>
std::string take_output(NvrtcProgramHandle program, const GetSize& get_size, const Get& get, const char* call,
                        const std::string& what) {
  size_t size = 0;
  check_nvrtc(get_size(program, &size), call, what);
  std::string output(size, '\0');
  if (size > 0) check_nvrtc(get(program, output.data()), call, what);
  return output;
}

std::string without_terminator(std::string text) {
  if (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::string nvrtc_name() {
  int major = 0;
  int minor = 0;
  check_nvrtc(nvrtc().version(&major, &minor), "nvrtcVersion", "NVRTC does not tell its version");
  return c10::str("NVRTC ", major, ".", minor);
}

// What users' text may include without effect: the host's headers and the driver's declarations have no place in device
// code, and the types of the others are the prelude's.
constexpr const char* kEmptyHeaders[] = {"cuda.h",   "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h",
                                         "math.h",   "stddef.h",       "stdint.h",    "stdio.h",
                                         "stdlib.h", "cmath",          "cstdint",     "cstdlib"};
constexpr auto kNoText = [] {
  std::array<const char*, std::size(kEmptyHeaders)> texts{};
  texts.fill("");
  return texts;
}();

// CUDA's own headers, for users' text that includes some (mma.h, say): our own needs none. Empty if there are none.
std::string toolkit_headers() {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto folder = environment(variable)) return join_path(*folder, "include");
  }
  const std::string usual = "/usr/local/cuda/include";
  return is_file(join_path(usual, "cuda.h")) ? usual : "";
}

bool is_virtual(const std::string& architecture) { return architecture.rfind("compute_", 0) == 0; }

// NVRTC's file and the capability decide the architecture and the code.
std::string cache_key(const std::string& text, const CudaTarget& target, const std::vector<std::string>& options) {
  Digest key;
  key.add("cuda").add(target.major).add(target.minor).add(file_stamp(find_nvrtc()).value_or(""));
  key.add(given_architecture().value_or(""));
  for (const std::string& option : options) key.add(option);
  return key.add(text).hex();
}

// In the cache: the marks, a zero byte, the image.
std::string to_payload(const CudaBinary& binary) { return marks_to_text(binary.marks) + '\0' + binary.image; }

std::optional<CudaBinary> from_payload(const std::string& payload) {
  const size_t end = payload.find('\0');
  if (end == std::string::npos) return std::nullopt;
  return CudaBinary{payload.substr(end + 1), marks_from_text(std::string_view(payload).substr(0, end))};
}

}  // namespace

CudaCompilation compile_cuda(const std::string& op, const std::string& source, const std::string& architecture,
                             const std::vector<std::string>& options, const UsersFiles& users) {
  const CompileTimer timer(op, architecture);
  cache::count_run(cache::Compiler::Nvrtc);
  const std::string what = op + ": compiling for " + architecture;
  NvrtcProgramHandle handle = nullptr;
  check_nvrtc(nvrtc().create_program(&handle, source.c_str(), kSourceName, std::size(kEmptyHeaders), kNoText.data(),
                                     kEmptyHeaders),
              "nvrtcCreateProgram", what);
  const NvrtcProgram program(handle);

  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> arguments = {target.c_str()};
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const NvrtcResult result = nvrtc().compile_program(handle, static_cast<int>(arguments.size()), arguments.data());

  CudaCompilation compilation;
  compilation.log =
      without_terminator(take_output(handle, nvrtc().get_log_size, nvrtc().get_log, "nvrtcGetProgramLog", what));
  if (result != kNvrtcSuccess) {
    const char* verdict = result == kNvrtcCompilationFailed ? " rejects the kernel" : " failed";
    throw_compile_error(op, ": ", nvrtc_name(), verdict, " for ", architecture, " (", nvrtc().get_error_string(result),
                        ")\n", without_foreign_lines(compilation.log, users));
  }
  compilation.ptx = without_terminator(take_output(handle, nvrtc().get_ptx_size, nvrtc().get_ptx, "nvrtcGetPTX", what));
  compilation.image = is_virtual(architecture)
                          ? compilation.ptx
                          : take_output(handle, nvrtc().get_cubin_size, nvrtc().get_cubin, "nvrtcGetCUBIN", what);
  compilation.registers = registers_of_cubin(compilation.image);
  return compilation;
}

std::string cuda_source_text(const KernelSource& source) {
  std::string text = assemble_source(source, cuda_launcher(source));
  record_text(source.op, "cuda", text);
  return text;
}

std::vector<std::string> cuda_options(const KernelSource& source) {
  // Warnings are about text that users never see: their own were given by Slang.
  std::vector<std::string> options = {"-std=c++17", "--device-as-default-execution-space", "-w"};
  if (const std::string headers = toolkit_headers(); !source.text.file_scope.empty() && !headers.empty()) {
    options.push_back("--include-path=" + headers);
  }
  if (source.fast_math) options.emplace_back("--use_fast_math");
  if (source.most_registers > 0) options.push_back("--maxrregcount=" + std::to_string(source.most_registers));
  if (source.checks != Checks::None) options.emplace_back("-lineinfo");
  return options;
}

CudaBinary load_or_compile(const KernelSource& source, const CudaTarget& target) {
  const std::string text = cuda_source_text(source);
  const std::vector<std::string> options = cuda_options(source);
  const std::string key = cache_key(text, target, options);
  const auto find = [&]() -> std::optional<CudaBinary> {
    const auto payload = cache::read(cache::Kind::Cubin, key);
    auto binary = payload ? from_payload(*payload) : std::nullopt;
    if (binary) log_info(source.op, " for ", target.name, " comes from the cache");
    return binary;
  };
  return cache::find_or_make(cache::Kind::Cubin, key, source.op, find, [&] {
    CudaCompilation compilation =
        compile_cuda(source.op, text, architecture_for(target, multiplies(source)), options, users_files(source));
    CudaBinary binary{std::move(compilation.image), find_marks(compilation.ptx, source.view_count)};
    cache::write(cache::Kind::Cubin, key, to_payload(binary));
    return binary;
  });
}

CudaCompilation compile_for_architecture(const KernelSource& source, const std::string& architecture) {
  return compile_cuda(source.op, cuda_source_text(source), architecture, cuda_options(source), users_files(source));
}

std::optional<std::string> given_architecture() { return environment("TORCH_SLANG_CUDA_ARCHITECTURE"); }

std::string architecture_for(const CudaTarget& target, bool has_tiles) {
  if (const auto given = given_architecture()) return *given;
  constexpr int kHopper = 90;
  int count = 0;
  check_nvrtc(nvrtc().get_architecture_count(&count), "nvrtcGetNumSupportedArchs", "asking for NVRTC's architectures");
  std::vector<int> known(static_cast<size_t>(count));
  check_nvrtc(nvrtc().get_architectures(known.data()), "nvrtcGetSupportedArchs", "asking for NVRTC's architectures");

  const int wanted = 10 * target.major + target.minor;
  if (std::find(known.begin(), known.end(), wanted) != known.end()) {
    return "sm_" + std::to_string(wanted) + (wanted == kHopper && has_tiles ? "a" : "");
  }
  const int newest = known.empty() ? 0 : *std::max_element(known.begin(), known.end());
  TORCH_CHECK(wanted > newest, nvrtc_name(), " does not compile for ", target.name, " (compute capability ",
              target.major, ".", target.minor, "): TORCH_SLANG_NVRTC can name an older one");
  return "compute_" + std::to_string(newest);
}

}  // namespace torch_slang
