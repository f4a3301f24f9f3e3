#include "program/compiler_client.h"

#include <c10/util/Exception.h>

#include <mutex>

#include "common/environment.h"
#include "common/error.h"
#include "common/files.h"
#include "common/log.h"
#include "common/process.h"
#include "program/compiler_protocol.h"

namespace torch_slang {
namespace {

std::mutex path_mutex;
std::string& configured_path() {
  static std::string path;
  return path;
}

// What torch-slangc said on stderr: the progress lines tell where it was, the rest is for people.
struct Report {
  std::string at;
  std::string text;
};

Report read_report(const std::string& error_output) {
  Report report;
  size_t begin = 0;
  while (begin < error_output.size()) {
    size_t end = error_output.find('\n', begin);
    end = end == std::string::npos ? error_output.size() : end + 1;
    const std::string line = error_output.substr(begin, end - begin);
    if (line.rfind(kProgressMark, 0) == 0) {
      report.at = line.substr(std::string(kProgressMark).size());
      while (!report.at.empty() && report.at.back() == '\n') report.at.pop_back();
    } else {
      report.text += line;
    }
    begin = end;
  }
  return report;
}

ProcessResult run_compiler(const CompileRequest& request) {
  ProcessRequest process;
  process.argv = {compiler_path(), kServeOption};
  process.input = to_json(request);
  process.timeout = std::chrono::seconds(environment_integer("TORCH_SLANG_COMPILE_TIMEOUT", 120));
  return run_process(process);
}

// A program that died has no answer; each instantiation is then asked for on its own, so that one bad kernel costs only
// itself.
bool died(const ProcessResult& result) { return result.signal != 0 || result.timed_out; }

std::string what_happened(const ProcessResult& result, const Report& report, const std::string& path) {
  std::string text = "the Slang compiler " + result.how_it_ended() + " while compiling " +
                     (report.at.empty() ? path : report.at + " of " + path);
  if (!report.text.empty()) text += "\n" + report.text;
  return text;
}

Program ask(const CompileRequest& request) {
  const ProcessResult result = run_compiler(request);
  const Report report = read_report(result.error);
  if (result.succeeded()) return program_from_json(result.output);
  if (!died(result) && result.status == kStatusCompileError) throw CompileError(report.text);
  throw CompileError(what_happened(result, report, request.path));
}

}  // namespace

void set_compiler_path(std::string path) {
  const std::lock_guard<std::mutex> lock(path_mutex);
  configured_path() = std::move(path);
}

std::string compiler_path() {
  if (auto path = environment("TORCH_SLANG_COMPILER")) {
    TORCH_CHECK(is_file(*path), "torch_slang: TORCH_SLANG_COMPILER is ", *path, ", but there is no such file");
    return *path;
  }
  const std::lock_guard<std::mutex> lock(path_mutex);
  const std::string& path = configured_path();
  TORCH_CHECK(!path.empty() && is_file(path), "torch_slang: the compiler torch-slangc is not at ",
              path.empty() ? "any known place" : path, "; reinstall torch_slang or set TORCH_SLANG_COMPILER");
  return path;
}

Program compile(const CompileRequest& request) {
  CompileTimer timer(request.path, "device text");
  return ask(request);
}

}  // namespace torch_slang
