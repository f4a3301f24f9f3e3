#include "backend/record.h"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <optional>
#include <set>

#include "backend/launch_shape.h"
#include "common/environment.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/log.h"

namespace torch_slang {
namespace {

// Launches ask each time, so the variable is read once.
const std::optional<std::string>& folder() {
  static const auto named = environment("TORCH_SLANG_RECORD");
  return named;
}

// Lines that this process has written.
struct Launches {
  std::mutex mutex;
  std::set<std::string> known;
};

Launches& launches() {
  static auto* made = new Launches();  // never destroyed: threads may launch while the process ends
  return *made;
}

void write(const std::string& title, const char* target, const std::string& text) {
  const std::string path = join_path(*folder(), Digest().add(title).add(text).hex() + "." + target);
  const bool is_written = is_file(path) || (make_folders(*folder()) && publish_file(path, "// " + title + "\n" + text));
  if (!is_written) log_warning_once(c10::str("TORCH_SLANG_RECORD: cannot write ", path));
}

}  // namespace

void record_text(const std::string& op, const char* target, std::string text) {
  if (!folder()) return;
  // The prelude is most of each text, and the same in all: a file of its own.
  const size_t begin = text.find("#line 1 \"torch_slang/prelude.h\""),
               end = text.find("#line 1 \"torch_slang/file_scope\"");
  if (begin < end && end != std::string::npos) {
    write("prelude", target, text.substr(begin, end - begin));
    text.erase(begin, end - begin);
  }
  write(op, target, text);
}

void record_launch(const std::string& op, const char* target, const LaunchShape& shape, uint64_t samples) {
  if (!folder()) return;
  const std::string line = c10::str(op, " on ", target, ": ", describe(shape),
                                    samples == 0 ? "" : c10::str(", ", samples, " samples"), "\n");
  const std::lock_guard<std::mutex> lock(launches().mutex);
  if (!launches().known.insert(line).second) return;
  const std::string path = join_path(*folder(), "launches." + std::to_string(getpid()));
  if (!make_folders(*folder()) || !(std::ofstream(path, std::ios::app) << line)) {
    log_warning_once(c10::str("TORCH_SLANG_RECORD: cannot write ", path));
  }
}

}  // namespace torch_slang
