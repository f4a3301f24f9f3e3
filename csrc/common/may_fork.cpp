#include "common/may_fork.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/dynamic_library.h"

namespace torch_slang {

bool are_forks_intercepted() {
  static const bool are = [] {
    const std::filesystem::path holder = DynamicLibrary::file_of(::dlsym(RTLD_DEFAULT, "fork"));
    const std::string name = holder.filename();
    for (const char* own : {"libc.", "libc-", "libpthread", "ld-musl"}) {
      if (name.rfind(own, 0) == 0) return false;
    }
    return true;
  }();
  return are;
}

bool may_fork() {
  struct stat tasks = {};
  // A folder's links are its entries: itself, its parent and one for each thread.
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3 && !are_forks_intercepted();
}

}  // namespace torch_slang
