#include "common/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <mutex>
#include <set>

#include "common/files.h"

namespace torch_slang {
namespace {

constexpr time_t kYoungSeconds = 60;
constexpr size_t kRandomLetters = 6;  // mkdtemp's

bool has_form(const std::string& name, const std::string& prefix) {
  return name.size() == prefix.size() + 1 + kRandomLetters && name.starts_with(prefix + "-");
}

bool is_left_over(const std::string& folder) {
  struct stat facts{};
  if (::lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) return false;
  return facts.st_mtime + kYoungSeconds < std::time(nullptr) && lock_folder(folder).is_open();
}

bool is_first_look(const std::string& root) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return seen->insert(root).second;
}

}  // namespace

Descriptor lock_folder(const std::string& folder) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (opened.is_open() && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) opened.close();
  return opened;
}

void remove_leftovers(const std::string& root, const std::string& prefix) {
  if (!is_first_look(root)) return;
  for (const std::string& name : list_folder(root)) {
    const std::string folder = join_path(root, name);
    if (has_form(name, prefix) && is_left_over(folder)) remove_folder(folder);
  }
}

}  // namespace torch_slang
