#include "common/files.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "common/descriptor.h"
#include "common/environment.h"

namespace torch_slang {

bool write_all(const Descriptor& file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

Descriptor file_in_memory(const char* name) { return above_standard(Descriptor(::memfd_create(name, MFD_CLOEXEC))); }

std::optional<std::string> read_file(const std::string& path) {
  return read_descriptor(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

Descriptor text_in_memory(const char* name, std::string_view text) {
  Descriptor file = file_in_memory(name);
  const bool is_ready = write_all(file, text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return is_ready ? std::move(file) : Descriptor();
}

std::optional<std::string> read_descriptor(const Descriptor& file) {
  struct stat facts{};
  if (!file.is_open() || ::fstat(file.get(), &facts) != 0) return std::nullopt;
  std::string content(static_cast<size_t>(facts.st_size) + 1,
                      '\0');  // one more, so that the end is met without growing
  size_t size = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size == content.size()) content.resize(2 * size);
  }
  content.resize(size);
  return content;
}

std::string read_file_or_throw(const std::string& path) {
  auto content = read_file(path);
  TORCH_CHECK(content.has_value(), "cannot read ", path, ": ", std::strerror(errno));
  return *std::move(content);
}

bool publish_file(const std::string& path, std::string_view content, mode_t mode) {
  TemporaryFile temporary = TemporaryFile::beside(path);
  if (!temporary.valid()) return false;
  {
    const Descriptor file(::open(temporary.path().c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open() || !write_all(file, content) || ::fchmod(file.get(), mode) != 0) return false;
  }
  return temporary.rename_to(path);
}

bool remove_file(const std::string& path) { return ::unlink(path.c_str()) == 0 || errno == ENOENT; }

bool remove_folder(const std::string& path) {
  try {
    std::error_code problem;
    std::filesystem::remove_all(path, problem);
    return !problem;
  } catch (const std::bad_alloc&) {  // destructors come here
    errno = ENOMEM;
    return false;
  }
}

bool make_folders(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      // A parent that exists but where nothing may be made (a read-only file system says so first) is no obstacle.
      struct stat facts{};
      const int saved = errno;
      const bool exists = ::stat(part.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
      errno = saved;
      if (!exists) return false;
    }
    if (end == std::string::npos) break;
  }
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return false;
  if (S_ISDIR(facts.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entry(path, problem);
  while (!problem && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(problem);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_file(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

std::optional<std::string> file_stamp(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return canonical_path(path) + "|" + std::to_string(facts.st_size) + "|" + std::to_string(facts.st_mtim.tv_sec) + "." +
         std::to_string(facts.st_mtim.tv_nsec);
}

std::string canonical_path(const std::string& path) {
  std::error_code problem;
  const auto canonical = std::filesystem::canonical(path, problem);
  return problem ? path : canonical.string();
}

std::string join_path(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::string parent_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_root() { return environment_or("TMPDIR", "/tmp"); }

std::optional<std::string> find_program(const std::string& name) {
  const auto is_program = [](const std::string& path) { return is_file(path) && ::access(path.c_str(), X_OK) == 0; };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(std::filesystem::absolute(name).string()) : std::nullopt;
  }
  const std::string folders = environment_or("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (size_t start = 0; start <= folders.size();) {
    const size_t end = std::min(folders.find(':', start), folders.size());
    const std::string folder = end == start ? "." : folders.substr(start, end - start);
    const std::string path = join_path(folder, name);
    if (is_program(path)) return std::filesystem::absolute(path).string();
    start = end + 1;
  }
  return std::nullopt;
}

TemporaryFile TemporaryFile::beside(const std::string& path) {
  TemporaryFile file;
  std::string name = join_path(parent_path(path), ".tmp-XXXXXX");
  const Descriptor descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (descriptor.is_open()) file.path_ = name;
  return file;
}

TemporaryFile::~TemporaryFile() {
  const int saved = errno;
  if (!path_.empty()) ::unlink(path_.c_str());
  errno = saved;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

bool TemporaryFile::rename_to(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) return false;
  path_.clear();
  return true;
}

}  // namespace torch_slang
