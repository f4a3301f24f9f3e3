#include "device_compilers/host/host_compiler.h"

#include <sys/statvfs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cache/cache.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/log.h"
#include "common/process.h"
#include "common/shell_words.h"
#include "device_compilers/host/processor.h"
#include "source/source_text.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr std::array kUsualNames = {"c++", "g++", "clang++"};

// A path with spaces in it may be given as it is.
std::vector<std::string> words_of(const std::string& op, const char* variable) {
  const std::string text = environment_or(variable, "");
  if (text.find('/') != std::string::npos && find_program(text)) return {text};
  auto words = split_shell_words(text);
  if (!words) {
    throw_compile_error(op, ": cannot be compiled for the CPU: ", variable,
                        " has a quote that is not closed, or ends in a ", "backslash: ", text);
  }
  return *std::move(words);
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

// A full disk: the compiler says so, unless it was the one that could not be told.
bool has_no_space(const std::string& folder, const ProcessResult& result) {
  struct statvfs facts{};
  return result.error.find(std::strerror(ENOSPC)) != std::string::npos ||
         (::statvfs(folder.c_str(), &facts) == 0 && facts.f_bavail == 0);
}

// The file that the user wrote, if the text has anything from there.
const std::string& file_of(const KernelSource& source) {
  return source.text.files.empty() ? source.text.entry : source.text.files.front();
}

ProcessResult run_compiler(const HostCompiler& compiler, const std::vector<std::string>& flags,
                           std::vector<std::string> more, const std::string& input, const std::string& folder) {
  ProcessRequest request;
  request.argv = compiler.command;
  request.argv.insert(request.argv.end(), flags.begin(), flags.end());
  request.argv.insert(request.argv.end(), more.begin(), more.end());
  request.argv.insert(request.argv.end(), {input, "-lm"});
  request.environment = {{"LC_ALL", "C"}, {"TMPDIR", folder}};
  request.timeout = compile_time_limit();
  request.has_helpers = true;
  cache::count_run(cache::Compiler::Host);
  return run_process(request);
}

void warn_of_plainer_target(const HostCompiler& compiler, const KernelSource& source, const std::string& target,
                            const ProcessResult& refusal) {
  log_warning_once(compiler.program() + " refuses code that it made for this processor: the kernels concerned " +
                   "are compiled with " + target + ", and may be slower. TORCH_SLANG_LOG=info names them");
  log_info(source.op, " is compiled with ", target, ": ", compiler.program(), " ", refusal.how_it_ended(), "\n",
           refusal.output, refusal.error);
}

}  // namespace

HostCompiler find_host_compiler(const std::string& op) {
  if (const auto own = words_of(op, "TORCH_SLANG_CXX"); !own.empty()) {
    if (auto compiler = resolve(own)) return *compiler;
    throw_compile_error(op, ": cannot be compiled for the CPU: TORCH_SLANG_CXX names the C++ compiler ", own.front(),
                        ", which is not a program that can be found");
  }
  const auto usual = words_of(op, "CXX");  // which may be meant for another program
  if (!usual.empty()) {
    if (auto compiler = resolve(usual)) return *compiler;
  }
  const std::string missing = usual.empty() ? "" : "CXX names " + usual.front() + ", which is not there, and ";
  for (const char* name : kUsualNames) {
    auto compiler = resolve({name});
    if (!compiler) continue;
    if (!usual.empty())
      log_warning_once(missing + "kernels for the CPU are compiled by " + compiler->program() +
                       ": TORCH_SLANG_CXX chooses another compiler");
    return *std::move(compiler);
  }
  throw_compile_error(
      op, ": cannot be compiled for the CPU: there is no C++ compiler here (", missing,
      "none of c++, g++, clang++ is in PATH). ",
      "Install one (e.g. `apt install g++`, `dnf install gcc-c++`, `conda install -c conda-forge gxx`) or set "
      "TORCH_SLANG_CXX to its path");
}

std::vector<std::string> host_compiler_flags(const std::string& op, bool fast_math, bool has_checks) {
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
      // It repeats the search below after registers are allocated: much time for nothing.
      "-fno-gcse-after-reload",
      // Kernels have equal names for different things: none may be shared between objects.
      "-fvisibility=hidden"};
  // In kernels with hundreds of checked accesses GCC spends most of its time on asking which store each load may see. It
  // gives up sooner: 1.6 times as fast there, the same code for small kernels. Not without checks: then the text is read for
  // what the kernel does with its views, and GCC must find out which view each access is to.
  if (has_checks) flags.push_back("--param=sccvn-max-alias-queries-per-access=100");
  // Not -ffast-math, which would take isnan away and, linked, flush denormals in the whole process. The macro makes glibc
  // declare its vector versions of exp, sin and the like.
  if (fast_math) {
    flags.insert(flags.end(), {"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-D__FAST_MATH__=1"});
  }
  for (std::string& word : words_of(op, "TORCH_SLANG_CXXFLAGS")) flags.push_back(std::move(word));
  return flags;
}

std::vector<std::string> with_exact_marks(const std::string& op, std::vector<std::string> flags) {
  std::string level;
  for (const std::string& flag : flags) {
    if (flag.starts_with("-O")) level = flag;
  }
  if (level != "-O0" && level != "-Og") return flags;
  log_info(op, " is compiled with -O1, not ", level, ": its use of tensors can be read from optimised code alone");
  flags.push_back("-O1");
  return flags;
}

Digest object_digest(const HostCompiler& compiler, const std::vector<std::string>& flags, std::string_view text) {
  Digest digest;
  digest.add(text).add(compiler.stamp).add(cpu_identity());
  for (const std::string& word : compiler.command) digest.add(word);
  for (const std::string& word : flags) digest.add(word);
  for (const std::string& word : plainer_targets()) digest.add(word);
  return digest;
}

void compile_shared_object(const HostCompiler& compiler, const std::vector<std::string>& flags,
                           const KernelSource& source, const std::string& text, const std::string& output) {
  CompileTimer timer(source.op, "CPU");
  const std::string folder = parent_path(output);
  const std::string input = join_path(folder, "kernel.cpp");
  if (!publish_file(input, text))
    throw_compile_error(source.op, ": cannot be compiled for the CPU: cannot write ", input, " (", std::strerror(errno),
                        "): TMPDIR chooses another folder");

  const auto run = [&](std::vector<std::string> more) {
    return run_compiler(compiler, flags, std::move(more), input, folder);
  };
  const ProcessResult result = run({"-o", output});
  if (result.succeeded()) {
    if (!result.error.empty()) log_debug(source.op, ": ", compiler.program(), " says\n", result.error);
    return;
  }
  if (has_no_space(folder, result)) {
    throw_compile_error(source.op, ": cannot be compiled for the CPU: there is no space left in the temporary folder ",
                        parent_path(folder), ": TMPDIR chooses another\n", result.output, result.error);
  }
  if (result.timed_out && run({"-O1", "-o", output}).succeeded()) {
    log_warning(source.op, ": ", compiler.program(), " ", result.how_it_ended(),
                ": compiled with -O1, it may be slower. ", "TORCH_SLANG_COMPILE_TIMEOUT sets the limit");
    return;
  }
  // Note [refused code]. An ill-formed text is the user's own mistake, on any processor.
  const std::vector<std::string>& targets = plainer_targets();
  if (result.start_error.empty() && !result.timed_out && !targets.empty() &&
      run({targets.back(), "-fsyntax-only"}).succeeded()) {
    for (const std::string& target : targets) {
      if (!run({target, "-o", output}).succeeded()) continue;
      warn_of_plainer_target(compiler, source, target, result);
      return;
    }
  }
  throw_compile_error(source.op, ": ", file_of(source), " does not compile for the CPU: ", compiler.program(), " ",
                      result.how_it_ended(), result.timed_out ? " (TORCH_SLANG_COMPILE_TIMEOUT sets the limit)" : "",
                      "\n", without_foreign_lines(result.output + result.error, users_files(source)));
}

}  // namespace torch_slang
