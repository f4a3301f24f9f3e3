#include "backend/cpu/host_library.h"

#include "cache/cache.h"
#include "cache/turn.h"
#include "common/files.h"
#include "common/temporary_folder.h"
#include "device_compilers/host/host_compiler.h"
#include "source/source_text.h"

namespace torch_slang {
namespace {

// They run once a call, between kernels: time to compile counts, speed does not. Errors leave them by exceptions.
std::vector<std::string> flags_of_host_functions(const std::string& op) {
  std::vector<std::string> flags = host_compiler_flags(op, false, false);
  flags.insert(flags.end(), {"-O1", "-fexceptions"});
  return flags;
}

std::string source_text(const HostText& text, bool polls) {
  return std::string(polls ? "#define TSL_POLLS 1\n" : "") + prelude_file("host_abi.h") +
         prelude_file("host_function.h") + text.body;
}

}  // namespace

DynamicLibrary load_host_library(const HostText& text, const std::string& op, const std::string& file, bool polls) {
  const HostCompiler compiler = find_host_compiler(op);
  const std::vector<std::string> flags = flags_of_host_functions(op);
  const std::string source = source_text(text, polls);
  const std::string key = object_digest(compiler, flags, source).add("host functions").hex();

  const auto make = [&] {
    KernelSource described;  // what compile errors name
    described.op = op;
    described.text.entry = file;
    TemporaryFolder folder;
    const std::string output = folder.file("host.so");
    compile_shared_object(compiler, flags, described, source, output);
    cache::write(cache::Kind::Object, key, read_file_or_throw(output));
    return DynamicLibrary::open(output);  // the loader maps it: its file need not stay
  };
  return cache::find_or_make(cache::Kind::Object, key, op, [&] { return cache::load_object(key); }, make);
}

}  // namespace torch_slang
