#include "common/only_thread.h"

#include <sys/stat.h>

namespace torch_slang {

bool is_only_thread() {
  struct stat tasks = {};
  // A folder's links are its entries: itself, its parent and one for each thread.
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
}

}  // namespace torch_slang
