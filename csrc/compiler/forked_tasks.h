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
//   A fork prints nothing, and what it did not finish, since it threw, crashed or was killed, its parent does once more: errors
//   and crashes are reported as if there were no forks, though a crash takes its time twice.

struct ForkedTasks {
  size_t count = 0;  // they are numbered from 0
  size_t processes = 1;  // at most; this one takes part
  std::function<void(size_t)> here;  // does one in this process
  std::function<std::string(size_t)> there;  // does one in a fork, of which only the returned text is left
  std::function<void(size_t)> waiting_for;  // this process has none left, and waits for a fork that is at this one
};

// The texts that forks returned. May be called from a process with one thread only.
std::map<size_t, std::string> run_forked(const ForkedTasks& tasks);

size_t usable_processors();

}  // namespace torch_slang
