#include "texts/program_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "cache/cache.h"
#include "cache/turn.h"
#include "common/background.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/interrupts.h"
#include "common/log.h"
#include "program/compiler_client.h"

namespace torch_slang {

namespace {

// All that decides a Program but the files it imports, which its manifest lists.
std::string key_of(const CompileRequest& request) {
  Digest digest;
  digest.add("program").add(compiler_stamp());
  CompileRequest shown = request;
  if (!shown.source) shown.source = read_file_or_throw(request.path);
  digest.add(to_json(shown));
  return digest.hex();
}

bool is_current(const Program& program) {
  for (const SourceFile& file : program.files) {
    const auto content = read_file(file.path);
    if (file.digest.empty() ? content.has_value() : !content || digest_of(*content) != file.digest) return false;
  }
  return true;
}

std::shared_ptr<const Program> parse(const std::string& text) {
  return std::make_shared<const Program>(program_from_json(text));
}

std::optional<std::shared_ptr<const Program>> find_current(const CompileRequest& request, const std::string& key) {
  const auto text = cache::read(cache::Kind::Program, key);
  if (!text) return std::nullopt;
  std::shared_ptr<const Program> program;
  try {
    program = parse(*text);
  } catch (const c10::Error& error) {
    log_info(request.path, ": the cached Program is not used: ", error.what_without_backtrace());
    return std::nullopt;
  }
  if (!is_current(*program)) return std::nullopt;
  log_info(request.path, ": Program from the cache");
  return program;
}

std::shared_ptr<const Program> make(const CompileRequest& request, const std::string& key,
                                    const OnDescribed& on_described) {
  cache::count_run(cache::Compiler::Slang);
  auto program = std::make_shared<const Program>(compile(request, on_described));
  // What kept a text from being compiled may not last: a time-out, a kill.
  const bool complete = program->host_text.error.empty() && std::all_of(program->texts.begin(), program->texts.end(),
                                                                        [](const DeviceText& t) { return !t.died; });
  if (complete) cache::write(cache::Kind::Program, key, to_json(*program));
  return program;
}

void log_cautions(const Program& program) {
  for (const std::string& caution : program.cautions) log_warning_once(caution);
}

std::shared_ptr<const Program> find_or_make(const CompileRequest& request, const std::string& key,
                                            const OnDescribed& on_described) {
  const auto find = [&] { return find_current(request, key); };
  auto program = cache::find_or_make(cache::Kind::Program, key, request.path, find,
                                     [&] { return make(request, key, on_described); });
  log_cautions(*program);
  return program;
}

bool may_be_used_without_texts(const Program& description) {
  return description.tuned.empty() && description.host_functions.empty() &&
         std::all_of(description.functions.begin(), description.functions.end(),
                     [](const Function& function) { return !function.is_kernel() || function.kernel().tune.empty(); });
}

// Both ends of a compile that a thread of its own does.
class Begun {
 public:
  std::shared_future<std::shared_ptr<const Program>> described() const { return described_future_; }
  std::shared_future<std::shared_ptr<const Program>> complete() const { return complete_future_; }

  void run(const CompileRequest& request, const std::string& key) {
    const auto tell = [&](Program description) {
      if (!may_be_used_without_texts(description) || std::exchange(has_told_, true)) return;
      log_cautions(description);
      described_.set_value(std::make_shared<const Program>(std::move(description)));
    };
    try {
      auto program = find_or_make(request, key, tell);
      complete_.set_value(program);
      if (!has_told_) described_.set_value(std::move(program));
    } catch (...) {
      complete_.set_exception(std::current_exception());
      if (!has_told_) described_.set_exception(std::current_exception());
    }
  }

 private:
  std::promise<std::shared_ptr<const Program>> described_, complete_;
  const std::shared_future<std::shared_ptr<const Program>> described_future_ = described_.get_future().share();
  const std::shared_future<std::shared_ptr<const Program>> complete_future_ = complete_.get_future().share();
  bool has_told_ = false;
};

// Nothing if the thread was stopped since another one was interrupted, which is no answer for this one.
std::optional<BegunProgram> begin(const CompileRequest& request, const std::string& key) {
  const auto begun = std::make_shared<Begun>();
  run_in_background([begun, request, key, since = interruptions_seen()] {
    const WorksForAnother scope(since);
    begun->run(request, key);
  });
  wait_interruptibly_for(begun->described());
  try {
    return BegunProgram{begun->described().get(), begun->complete()};
  } catch (const Interrupted&) {
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<const Program> load_program(const CompileRequest& request) {
  return find_or_make(request, key_of(request), {});
}

BegunProgram begin_program(const CompileRequest& request) {
  const std::string key = key_of(request);
  if (auto program = find_current(request, key)) {
    log_cautions(**program);
    return {*std::move(program), {}};
  }
  try {
    for (;;) {
      if (auto begun = begin(request, key)) return *std::move(begun);
    }
  } catch (const std::system_error&) {  // there are no threads
    return {load_program(request), {}};
  }
}

std::shared_ptr<const Program> read_program(const std::string& path) {
  try {
    return parse(read_file_or_throw(path));
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, path, " cannot be loaded: ", error.what_without_backtrace());
  }
}

}  // namespace torch_slang
