#include "common/may_fork.h"

#include <sys/stat.h>

#include <string>

#include "common/files.h"

namespace torch_slang {

bool has_preloaded() {
  static const bool has = [] {
    const std::string initial = '\0' + read_file("/proc/self/environ").value_or("");
    const std::string variable = std::string(1, '\0') + "LD_PRELOAD=";
    const size_t found = initial.find(variable);
    return found != std::string::npos && initial.size() > found + variable.size() &&
           initial[found + variable.size()] != '\0';
  }();
  return has;
}

bool may_fork() {
  struct stat tasks = {};
  // A folder's links are its entries: itself, its parent and one for each thread.
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3 && !has_preloaded();
}

}  // namespace torch_slang
