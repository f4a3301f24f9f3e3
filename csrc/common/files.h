// Files and folders as caches and compilers need them. Functions here report failure by their result and leave errno as
// the system set it: callers decide whether that is an error or a cache miss. Safe from any thread and with other
// processes at work in the same folders.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/descriptor.h"

namespace torch_slang {

std::optional<std::string> read_file(const std::string& path);
std::optional<std::string> read_descriptor(const Descriptor& file);  // to its end
bool write_all(const Descriptor& file, std::string_view content);
Descriptor file_in_memory(const char* name);  // the name is for people who list the process's files
Descriptor text_in_memory(const char* name,
                          std::string_view text);  // at its beginning, for who reads it; not open: errno says why
std::string read_file_or_throw(const std::string& path);  // a c10::Error that names the path and the reason

// Note [atomic publish]: written under a temporary name in the same folder, then renamed, so that readers see the old
// file, none, or the whole new one. The last of several writers wins.
bool publish_file(const std::string& path, std::string_view content, mode_t mode = 0600);

bool remove_file(const std::string& path);  // true also if there was none
bool remove_folder(const std::string& path);  // with all that is in it; links are not followed
bool make_folders(const std::string& path, mode_t mode = 0700);
std::vector<std::string> list_folder(const std::string& path);  // names, sorted; empty if it cannot be read
bool is_file(const std::string& path);

// Path, size and time of change as text: tells whether a program or library is the one seen before without reading it.
std::optional<std::string> file_stamp(const std::string& path);

std::string canonical_path(const std::string& path);  // links resolved; the path itself if it does not exist
std::string join_path(const std::string& folder, const std::string& name);
std::string parent_path(const std::string& path);
std::string temporary_root();  // TMPDIR or /tmp
std::optional<std::string> find_program(const std::string& name);  // as execvp would, absolute

// A new private file beside `path` (same folder, so that it can be renamed to it) that goes when its owner does, unless
// it was renamed away. Not open: the owner has the name alone. Invalid (empty path, errno) if it cannot be made.
class TemporaryFile {
 public:
  static TemporaryFile beside(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;

  bool valid() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  bool rename_to(const std::string& path);  // atomic; the file then stays

 private:
  TemporaryFile() = default;

  std::string path_;
};

}  // namespace torch_slang
