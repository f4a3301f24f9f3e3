// Independent tasks of one process, done by several: forks of it, which have all that it has set up so far.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace torch_slang {

// Note [forked tasks]
//   Slang emits one text at a time, and a module's first call waits for all texts that the module was loaded with. So they are
//   emitted by several processes, as many as there are processors, up to eight. Each takes the next text that nobody has taken.
//   A fork prints nothing. If it throws, crashes or is killed, its parent does again the tasks that the fork has not finished.
//   So errors and crashes are reported as if there were no forks, though a text that crashes Slang is tried twice.

struct ForkedTasks {
  size_t count = 0;  // they are numbered from 0
  size_t processes = 1;  // at most; this one takes part
  std::function<void(size_t)> here;  // does one in this process
  std::function<std::string(size_t)> there;  // does one in a fork; only the returned text reaches this process
  std::function<void(size_t)> waiting_for;  // is told the task of the fork that this process waits for
};

// The texts that forks returned: none where the process may not fork (common/may_fork.h).
std::map<size_t, std::string> run_forked(const ForkedTasks& tasks);

size_t usable_processors();

}  // namespace torch_slang
