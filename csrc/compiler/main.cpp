// torch-slangc: the compiler as a program, for people (`torch-slangc cube.slang -o cube.json`) and for the library
// (`--serve`, see program/compiler_protocol.h).
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <utility>

#include "common/descriptor.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/fork_server.h"
#include "compiler/compile.h"
#include "compiler/crash_signals.h"
#include "compiler/emit/passes.h"
#include "compiler/ir/repairs.h"
#include "compiler/slang/com.h"
#include "compiler/slang/library.h"
#include "compiler/source/crash_hints.h"
#include "compiler/source/session.h"
#include "compiler/source/tuned_variables.h"
#include "program/compiler_protocol.h"
#include "program/enumerations.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

constexpr const char* kUsage =
    "usage: torch-slangc FILE.slang [-D NAME[=VALUE]] [-I FOLDER] [-o OUT.json] [--all-types | --list | --audit]\n"
    "  Compiles the kernels and [TorchOp] functions of a Slang file to a torch_slang Program.\n"
    "  -D NAME[=VALUE]   define a macro\n"
    "  -I FOLDER         search imported and included files here too\n"
    "  -o OUT.json       write the Program here (default: standard output)\n"
    "  --all-types       compile generic kernels and functions for each type that they allow, not for float32 alone\n"
    "  --list            print the operators that the file gives, and compile nothing\n"
    "  --audit           compare each operator's backward with its forward derivative: runs python3 -m torch_slang "
    "check\n";

struct Options {
  CompileRequest request;
  std::string output;
  bool list = false;
  bool all_types = false;
  bool serve = false;
  bool forks = false;
  bool emitted = false;
  bool help = false;
  std::string library_folder;
};

// Not in the usage text: for the build alone.
constexpr const char* kLibraryOption = "--compile-library";
// Runs operators, which takes PyTorch.
constexpr const char* kAuditOption = "--audit";
// For scripts/write_golden.py.
constexpr const char* kEmittedOption = "--emitted";

constexpr int kStatusUsage = 2;
constexpr int kStatusBroken = 3;

// Becomes `python3 -m torch_slang check` with the other arguments. $PYTHON names another Python.
int audit(int argc, char** argv) {
  const std::string python = environment_or("PYTHON", "python3");
  std::vector<const char*> command = {python.c_str(), "-m", "torch_slang", "check"};
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != kAuditOption) command.push_back(argv[i]);
  }
  command.push_back(nullptr);
  ::execvp(command[0], const_cast<char* const*>(command.data()));
  std::cerr << "torch-slangc: --audit runs " << python << ", which cannot be started; $PYTHON can name another\n";
  return kStatusBroken;
}

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    // The value of -X, given as `-X value` or `-Xvalue`.
    const auto value = [&]() -> std::string {
      if (word.size() > 2) return word.substr(2);
      if (i + 1 >= argc) throw UsageError(word + " needs a value");
      return argv[++i];
    };
    if (word == "-h" || word == "--help") {
      options.help = true;
    } else if (word == kServeOption) {
      options.serve = true;
    } else if (word == kForksOption) {
      options.forks = true;
    } else if (word == kEmittedOption) {
      options.emitted = true;
    } else if (word == kLibraryOption) {
      if (++i >= argc) throw UsageError(word + " needs a folder");
      options.library_folder = argv[i];
    } else if (word == "--all-types") {
      options.all_types = true;
    } else if (word == "--list") {
      options.list = true;
    } else if (word.starts_with("-D")) {
      const std::string define = value();
      const size_t equals = define.find('=');
      options.request.defines.emplace_back(define.substr(0, equals),
                                           equals == std::string::npos ? "1" : define.substr(equals + 1));
    } else if (word.starts_with("-I")) {
      options.request.include_dirs.push_back(value());
    } else if (word.starts_with("-o")) {
      options.output = value();
    } else if (word.starts_with("-")) {
      throw UsageError("unknown option " + word);
    } else if (options.request.path.empty()) {
      options.request.path = std::filesystem::absolute(word).lexically_normal().string();
    } else {
      throw UsageError("one file at a time, but " + word + " is a second one");
    }
  }
  if (options.request.path.empty() && !options.serve && !options.help && options.library_folder.empty())
    throw UsageError("no file given");
  return options;
}

std::string signature(const Function& function) {
  std::string inputs, outputs;
  for (const Leaf& leaf : function.leaves) {
    std::string& list = leaf.is_output && !function.is_kernel() ? outputs : inputs;
    list += (list.empty() ? "" : ", ") + leaf.slang_type + " " + leaf.name;
  }
  std::string text = function.name + "(" + inputs + ")";
  if (!outputs.empty()) text += " -> " + outputs;
  if (function.has_backward) text += ", with backward";
  if (!function.refusal.empty()) text += ": refused, " + function.refusal;
  return text;
}

// Functions that cannot be operators are there for others to call.
void list_operators(const Program& program) {
  for (const Function& function : program.functions) {
    if (function.is_kernel() || function.torch_op || function.refusal.empty()) std::cout << signature(function) << "\n";
  }
}

bool is_promised(const Program& program, const std::string& name) {
  return std::any_of(program.functions.begin(), program.functions.end(), [&](const Function& function) {
    return function.name == name && (function.is_kernel() || function.torch_op);
  });
}

// For people a failing instantiation is an error, unless it is of a function that need not be an operator; the library is
// told in the Program and decides.
int report_errors(const Program& program) {
  int status = 0;
  for (const DeviceText& text : program.texts) {
    if (text.error.empty()) continue;
    std::cerr << text.error << "\n";
    if (is_promised(program, text.function)) status = kStatusCompileError;
  }
  if (!program.host_text.error.empty()) {
    std::cerr << "torch_slang: " << program.host_text.error << "\n";
    status = kStatusCompileError;
  }
  return status;
}

void write_output(const std::string& path, const std::string& text) {
  if (path.empty()) {
    std::cout << text << "\n";
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text << "\n";
  file.close();
  TORCH_CHECK(file.good(), "torch-slangc: cannot write ", path);
}

// Read once. None if there is no such file: whoever needs it says so.
std::optional<std::string> text_of(const CompileRequest& request) {
  return request.source ? request.source : read_file(request.path);
}

Program compile_once(const CompileRequest& given, const std::optional<std::string>& text, Extent extent,
                     const Progress& progress, const TextObserver& observer = {},
                     const DescriptionObserver& described = {},
                     Com<slang::IGlobalSession> global = make_global_session()) {
  const CompileRequest request = text ? with_tuned_variables(given, *text) : given;
  auto* session =
      new Session(request, Session::Library::AsBuilt, text, std::move(global));  // never destroyed: see compile.h
  session->files().left_out().check({repairs_of_modules(), repairs_of_texts()});
  return compile_request(*session, request, extent, progress, observer, described);
}

// Standard output carries the Program alone: whatever Slang itself might print there goes to stderr.
Descriptor take_standard_output() {
  Descriptor output(dup(STDOUT_FILENO));
  TORCH_CHECK(output.is_open() && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, "torch-slangc: cannot redirect its output");
  return output;
}

void answer(const Descriptor& output, const std::string& text) {
  TORCH_CHECK(write_all(output, text), "torch-slangc: cannot write its answer");
}

// Part of the build: the library in the form that loads fast, for the folder that the program lies in.
int compile_library(const std::string& folder) {
  Session session({}, Session::Library::FromText);
  const std::string path = join_path(folder, kCompiledLibrary);
  TORCH_CHECK(publish_file(path, session.compiled_library(), 0644), "torch-slangc: cannot write ", path);
  return 0;
}

// Slang can crash. People then learn at what, or, where the library tells that by the progress lines, what may be the cause.
std::string crash_message;

void report_crash(int) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, crash_message.data(), crash_message.size());
}

// On a stack of their own: recursion without end is a way to crash.
void catch_crashes() {
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = report_crash;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);  // the second time it ends the program
  for (const int signal : kCrashSignals) sigaction(signal, &action, nullptr);
}

int serve(const Options& options) {
  Com<slang::IGlobalSession> global = make_global_session();
  if (options.forks && !serve_forks()) return 0;
  const Descriptor output = take_standard_output();
  const std::string input((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  const CompileRequest request = request_from_json(input);
  const Extent extent = request.description_alone ? Extent::DescribeOnly : Extent::Texts;
  const auto text = text_of(request);
  const bool second_derivative =
      !request.instantiations.empty() && request.instantiations.front().direction == Direction::TangentsBackward;
  const auto progress = [&](const std::string& what, const std::string& function) {
    std::fprintf(stderr, "%s%s\n", kProgressMark, what.c_str());
    std::fflush(stderr);
    crash_message = crash_hints(text.value_or(""), request.path, second_derivative, function);
    if (!crash_message.empty()) crash_message += "\n";  // others, such as a shell, write behind it
  };
  catch_crashes();
  const auto described = [&](const Program& description) { answer(output, to_json(description) + "\n"); };
  const bool is_whole = request.instantiations.empty() && !request.host_text_alone;
  answer(output, to_json(compile_once(request, text, extent, progress, {},
                                      is_whole ? DescriptionObserver(described) : nullptr, std::move(global))));
  return 0;
}

void note_progress(const std::string& what, const std::string&) {
  crash_message = "torch-slangc: the Slang compiler crashed while compiling " + what + "\n";
}

// Slang's version, and each text as Slang emitted it, behind two lines: its entry point, and how often each pass applied that did
// at all.
int show_emitted(const Options& options) {
  std::string shown;
  const auto show = [&](const DeviceText& text, const std::string& emitted, const std::vector<PassCount>& counts) {
    shown += "@entry " + text.entry + "\n@passes";
    for (const PassCount& pass : counts) {
      if (pass.count > 0) shown += " " + std::string(pass.name) + "=" + std::to_string(pass.count) + ";";
    }
    shown += "\n" + emitted + "\n";
  };
  const Program program = compile_once(options.request, text_of(options.request), Extent::Texts, note_progress, show);
  write_output(options.output, "@slang " + program.slang_version + "\n" + shown);
  return report_errors(program);
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.help) {
    std::cout << kUsage;
    return 0;
  }
  if (options.serve) return serve(options);
  if (!options.library_folder.empty()) return compile_library(options.library_folder);
  catch_crashes();
  const Extent extent = options.list ? Extent::DescribeOnly : options.all_types ? Extent::AllTypes : Extent::Texts;
  if (options.emitted) return show_emitted(options);
  const Program program = compile_once(options.request, text_of(options.request), extent, note_progress);
  if (!program.warnings.empty()) std::cerr << program.warnings << "\n";
  for (const std::string& caution : program.cautions) std::cerr << "torch-slangc: " << caution << "\n";
  if (options.list) {
    list_operators(program);
    return 0;
  }
  write_output(options.output, to_json(program));
  return report_errors(program);
}

int main_guarded(int argc, char** argv) {
  try {
    const bool audits =
        std::any_of(argv, argv + argc, [](const char* word) { return std::string(word) == kAuditOption; });
    return audits ? audit(argc, argv) : run(argc, argv);
  } catch (const UsageError& error) {
    std::cerr << "torch-slangc: " << error.what() << "\n" << kUsage;
    return kStatusUsage;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return kStatusCompileError;
  } catch (const std::exception& error) {
    std::cerr << "torch-slangc: " << error.what() << "\n";
    return kStatusBroken;
  }
}

}  // namespace
}  // namespace torch_slang

// Slang's objects take no part in what we wrote: leaving at once skips their teardown. Memory that it frees on the way is
// better kept than handed back to the system.
int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  const int status = torch_slang::main_guarded(argc, argv);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(status);
}
