#include "program/compiler_client.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "common/dynamic_library.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/fork_server.h"
#include "common/log.h"
#include "common/process.h"
#include "program/compiler_protocol.h"
#include "program/instantiations.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

// As the package lays it out: lib/libtorch_slang.so, bin/torch-slangc.
std::string packaged_path() {
  const std::string library = DynamicLibrary::file_of(reinterpret_cast<const void*>(&compiler_path));
  return join_path(join_path(parent_path(parent_path(library)), "bin"), "torch-slangc");
}

std::mutex path_mutex;
std::string& configured_path() {
  static std::string path = packaged_path();
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

// Behind the description, if there is one.
std::string last_line(std::string output) {
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output.substr(output.rfind('\n') + 1);
}

// What became of one run of torch-slangc.
struct Answer {
  std::optional<Program> program;
  std::string failure;  // else: the message for the user
  bool died = false;    // the compiler crashed, hung or was killed: the source may be innocent
  bool timed_out = false;
  std::string at;  // the step during which it died
};

// Hears the description in what torch-slangc has written so far.
class DescriptionReader {
 public:
  explicit DescriptionReader(const OnDescribed& on_described) : on_described_(on_described) {}

  void operator()(const std::string& output) {
    if (!on_described_ || has_told_) return;
    const size_t end = output.find('\n', searched_);
    searched_ = output.size();
    if (end == std::string::npos) return;
    has_told_ = true;
    try {
      on_described_(program_from_json(output.substr(0, end)));
    } catch (const c10::Error&) {  // the whole answer will be refused
    }
  }

 private:
  const OnDescribed& on_described_;
  size_t searched_ = 0;
  bool has_told_ = false;
};

// Note [compilers that are forks]
//   Most of the time until torch-slangc describes a small module goes by before it can read any, since it loads Slang's core module
//   first. One does that for all requests that come within five seconds of each other. Another program in its place is started for
//   each.
std::optional<ProcessResult> run_fork(ProcessRequest request) {
  std::error_code none;
  if (!std::filesystem::equivalent(request.argv.front(), packaged_path(), none)) return std::nullopt;
  static auto* server = new ForkServer(std::chrono::seconds(5));
  request.argv.emplace_back(kForksOption);
  return server->run(request);
}

ProcessResult run_compiler(ProcessRequest request) {
  request.argv = {compiler_path(), kServeOption};
  if (auto result = run_fork(request)) return *std::move(result);
  request.has_helpers = true;  // for who has put a script of his own in its place
  return run_process(request);
}

Answer ask(const CompileRequest& request, const OnDescribed& on_described = {}) {
  ProcessRequest process;
  process.input = to_json(request);
  process.timeout = compile_time_limit();
  process.on_output = DescriptionReader(on_described);
  const ProcessResult result = run_compiler(std::move(process));
  const Report report = read_report(result.error);
  Answer answer;
  if (result.succeeded()) {
    try {
      answer.program = program_from_json(last_line(result.output));
    } catch (const c10::Error& error) {
      answer.failure = "torch_slang: the Slang compiler's answer for " + request.path +
                       " is no Program: " + error.what_without_backtrace();
    }
  } else if (result.start_error.empty() && result.status == kStatusCompileError) {
    answer.failure = report.text;
  } else {
    answer.died = result.signal != 0 || result.timed_out;
    answer.timed_out = result.timed_out;
    answer.at = report.at;
    answer.failure = "torch_slang: the Slang compiler " + result.how_it_ended() + " while compiling " +
                     (report.at.empty() ? "" : report.at + " in ") + request.path;
    if (!report.text.empty()) answer.failure += "\n" + report.text;
  }
  return answer;
}

Program program_or_throw(Answer answer) {
  if (!answer.program) throw CompileError(answer.failure);
  return std::move(*answer.program);
}

// Note [one crash costs one kernel]
//   A compiler that dies over several texts has said which one it was at. The others are asked for without it, and it
//   then alone, unless it took too long: what dies again carries as its error what happened. If it was at none of them,
//   each half is asked for.
class Rescue {
 public:
  Rescue(CompileRequest request, Program& program) : request_(std::move(request)), program_(program) {}

  // `answer`: what asking for `wanted` has come to.
  void after(Answer answer, std::vector<Instantiation> wanted) {
    if (answer.program && answer.program->texts.size() == wanted.size()) {
      for (DeviceText& text : answer.program->texts) program_.texts.push_back(std::move(text));
      program_.cautions.merge(answer.program->cautions);
      program_.used_defines.merge(answer.program->used_defines);
      add_files(answer.program->files);
      return;
    }
    if (wanted.size() == 1) return fail(wanted.front(), answer);
    const auto culprit = std::find_if(wanted.begin(), wanted.end(), [&](const Instantiation& one) {
      return answer.died && describe_instantiation(one) == answer.at;
    });
    if (culprit == wanted.end()) {
      const auto middle = wanted.begin() + static_cast<std::ptrdiff_t>(wanted.size() / 2);
      add({wanted.begin(), middle});
      return add({middle, wanted.end()});
    }
    const Instantiation one = *culprit;
    wanted.erase(culprit);
    add(std::move(wanted));
    if (answer.timed_out) return fail(one, answer);
    add({one});
  }

 private:
  // Those that only texts need: headers.
  void add_files(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) {
      const auto is_same = [&](const SourceFile& known) { return known.path == file.path; };
      if (std::none_of(program_.files.begin(), program_.files.end(), is_same)) program_.files.push_back(file);
    }
  }

  void add(std::vector<Instantiation> wanted) {
    request_.instantiations = wanted;
    after(ask(request_), std::move(wanted));
  }

  void fail(const Instantiation& one, const Answer& answer) {
    DeviceText failed = empty_text(one);
    failed.error = answer.failure;
    failed.died = answer.died;
    program_.texts.push_back(std::move(failed));
  }

  CompileRequest request_;
  Program& program_;
};

Program compile_in_parts(const CompileRequest& request, Answer died) {
  CompileRequest description = request;
  description.description_alone = true;
  Program program = program_or_throw(ask(description));
  auto wanted = request.instantiations.empty() ? usual_instantiations(program.functions) : request.instantiations;
  if (!wanted.empty()) Rescue(request, program).after(std::move(died), std::move(wanted));
  if (request.instantiations.empty() && !program.host_functions.empty()) {
    CompileRequest alone = request;
    alone.host_text_alone = true;
    Answer answer = ask(alone);
    if (answer.program) {
      program.host_text = std::move(answer.program->host_text);
    } else {
      program.host_text.error = answer.failure;
    }
  }
  return program;
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
  TORCH_CHECK(is_file(path), "torch_slang: the compiler torch-slangc is not at ", path,
              "; reinstall torch_slang or set TORCH_SLANG_COMPILER");
  return path;
}

std::string compiler_stamp() {
  const std::string path = compiler_path();
  return file_stamp(path).value_or(path);
}

Program compile(const CompileRequest& request, const OnDescribed& on_described) {
  CompileTimer timer(request.path, "device text");
  Answer answer = ask(request, on_described);
  if (answer.died && request.instantiations.size() != 1) return compile_in_parts(request, std::move(answer));
  return program_or_throw(std::move(answer));
}

}  // namespace torch_slang
