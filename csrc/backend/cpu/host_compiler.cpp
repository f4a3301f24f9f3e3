#include "backend/cpu/host_compiler.h"

#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "cache/cache.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/files.h"
#include "common/log.h"
#include "common/process.h"

namespace torch_slang {
namespace {

constexpr std::array kUsualNames = {"c++", "g++", "clang++"};

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

std::optional<HostCompiler> resolve(std::vector<std::string> command) {
  auto program = find_program(command.front());
  if (!program) return std::nullopt;
  // Links are followed for the stamp alone: compilers look at the name that they are called by.
  auto stamp = file_stamp(canonical_path(*program));
  if (!stamp) return std::nullopt;
  command.front() = *program;
  return HostCompiler{std::move(command), std::move(*stamp)};
}

// The lines of /proc/cpuinfo that say what kind of processor this is; others change from core to core or by the minute.
bool names_processor_kind(std::string_view line) {
  constexpr std::array<std::string_view, 12> kKeys = {
      "vendor_id",       "cpu family",       "model",       "stepping", "flags",        "Features",
      "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "isa"};
  std::string_view key = line.substr(0, line.find(':'));
  key = key.substr(0, key.find_last_not_of(" \t") + 1);
  for (std::string_view known : kKeys) {
    if (key == known) return true;
  }
  return false;
}

// The file that the user wrote, as the text's #line directives name it.
std::string slang_file_of(const KernelSource& source) {
  const std::string& body = source.text.body;
  size_t end = body.find(".slang\"");
  if (end == std::string::npos) return {};
  size_t start = body.rfind('"', end - 1);
  return start == std::string::npos ? std::string() : body.substr(start + 1, end + 6 - (start + 1));
}

}  // namespace

HostCompiler find_host_compiler(const std::string& op) {
  for (const char* variable : {"TORCH_SLANG_CXX", "CXX"}) {
    auto command = split_words(environment_or(variable, ""));
    if (command.empty()) continue;
    if (auto compiler = resolve(command)) return *compiler;
    throw_compile_error(op, ": cannot be compiled for the CPU: ", variable, " names the C++ compiler ", command.front(),
                        ", which is not a program that can be found");
  }
  for (const char* name : kUsualNames) {
    if (auto compiler = resolve({name})) return *compiler;
  }
  throw_compile_error(
      op, ": cannot be compiled for the CPU: there is no C++ compiler here (none of c++, g++, clang++ is in PATH). ",
      "Install one (e.g. `apt install g++`, `dnf install gcc-c++`, `conda install -c conda-forge gxx`) or set "
      "TORCH_SLANG_CXX to its path");
}

std::vector<std::string> host_compiler_flags(bool fast_math) {
  std::vector<std::string> flags = {
      "-std=c++20", "-O3",
#if defined(__aarch64__)
      "-mcpu=native",
#else
      "-march=native",
#endif
      "-fPIC", "-shared", "-w", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
      "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti",
      // Views, and derivatives' structs of views, are copied a lot. GCC gives up taking them apart sooner than is good:
      // then loads stay whose values nobody wants, and loops that could vectorise do not. Other compilers ignore it.
      "--param=sra-max-propagations=1000",
      // Kernels have equal names for different things: none may be shared between objects.
      "-fvisibility=hidden"};
  // Not -ffast-math, which would take isnan away and, linked, flush denormals in the whole process. The macro makes glibc
  // declare its vector versions of exp, sin and the like.
  if (fast_math) {
    flags.insert(flags.end(), {"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-D__FAST_MATH__=1"});
  }
  for (std::string& word : split_words(environment_or("TORCH_SLANG_CXXFLAGS", ""))) flags.push_back(std::move(word));
  return flags;
}

const std::string& cpu_identity() {
  static const std::string identity = [] {
    std::ifstream file("/proc/cpuinfo");
    std::string text;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() && !text.empty()) break;  // the first processor's lines stand for all
      if (names_processor_kind(line)) text += line + "\n";
    }
    return text;
  }();
  return identity;
}

const std::string& cpu_name() {
  static const std::string name = [] {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(": ");
      if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
    }
    return std::string("CPU");
  }();
  return name;
}

void compile_shared_object(const HostCompiler& compiler, const std::vector<std::string>& flags,
                           const KernelSource& source, const std::string& text, const std::string& output) {
  CompileTimer timer(source.op, "CPU");
  const std::string folder = parent_path(output);
  const std::string input = join_path(folder, "kernel.cpp");
  if (!publish_file(input, text))
    throw_compile_error(source.op, ": cannot be compiled for the CPU: cannot write ", input);

  ProcessRequest request;
  request.argv = compiler.command;
  request.argv.insert(request.argv.end(), flags.begin(), flags.end());
  request.argv.insert(request.argv.end(), {"-o", output, input, "-lm"});
  request.environment = {{"LC_ALL", "C"}, {"TMPDIR", folder}};
  cache::count_run(cache::Compiler::Host);
  ProcessResult result = run_process(request);
  if (result.succeeded()) {
    if (!result.error.empty()) log_debug(source.op, ": ", compiler.program(), " says\n", result.error);
    return;
  }
  std::string file = slang_file_of(source);
  throw_compile_error(source.op, ": ", file.empty() ? source.text.entry : file,
                      " does not compile for the CPU: ", compiler.program(), " ", result.how_it_ended(), "\n",
                      result.output, result.error);
}

}  // namespace torch_slang
