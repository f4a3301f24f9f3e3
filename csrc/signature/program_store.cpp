#include "signature/program_store.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "cache/cache.h"
#include "cache/turn.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/log.h"
#include "program/compiler_client.h"

namespace torch_slang {

namespace {

// All that decides a Program but the files it imports, which its manifest lists.
std::string key_of(const CompileRequest& request) {
  Digest digest;
  digest.add("program").add(file_stamp(compiler_path()).value_or(compiler_path()));
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
    log_info(request.path, ": what the cache has is not used: ", error.what_without_backtrace());
    return std::nullopt;
  }
  if (!is_current(*program)) return std::nullopt;
  log_info(request.path, ": Program from the cache");
  return program;
}

std::shared_ptr<const Program> make(const CompileRequest& request, const std::string& key) {
  cache::count_run(cache::Compiler::Slang);
  auto program = std::make_shared<const Program>(compile(request));
  // What kept a text from being compiled may not last: a time-out, a kill.
  const bool complete = program->host_text.error.empty() && std::all_of(program->texts.begin(), program->texts.end(),
                                                                        [](const DeviceText& t) { return !t.died; });
  if (complete) cache::write(cache::Kind::Program, key, to_json(*program));
  return program;
}

}  // namespace

std::shared_ptr<const Program> load_program(const CompileRequest& request) {
  const std::string key = key_of(request);
  const auto find = [&] { return find_current(request, key); };
  auto program = cache::find_or_make(cache::Kind::Program, key, request.path, find, [&] { return make(request, key); });
  for (const std::string& caution : program->cautions) log_warning_once(caution);
  return program;
}

std::shared_ptr<const Program> read_program(const std::string& path) {
  try {
    return parse(read_file_or_throw(path));
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, path, " cannot be loaded: ", error.what_without_backtrace());
  }
}

}  // namespace torch_slang
