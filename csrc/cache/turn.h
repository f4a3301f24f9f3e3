// Whose turn it is to make an entry of the cache.
//
// Note [one compile for one text]
//   Whoever finds no entry takes its turn: a file beside the entry that is locked (flock), by one thread of one process at a
//   time. Others wait, and find the entry when the owner is done.
//     - An owner that dies loses the lock, since the system unlocks its files, and leaves the file: the next takes over.
//     - An owner that is done removes the file before it unlocks it. Who then gets a lock on a file that has no name any more
//       needs none: either there is an entry now, or none can be had (the text does not compile, say), and then all go ahead
//       together rather than fail in a row.
//     - Where there is no folder to write to, or no lock to be had in it (some network file systems), nobody waits.
//   It is no OnceEach (common/once_each.h), whose values no other process sees. Threads of one process have locks of their own, so
//   modules that share nothing take turns, too.
#pragma once

#include <string>
#include <utility>

#include "cache/cache.h"
#include "common/descriptor.h"

namespace torch_slang::cache {

class Turn {
 public:
  // Waits for the owner, if there is one, though not much longer than compilers may take: interruptible. `what` is compiled,
  // for a line in the log.
  Turn(Kind kind, const std::string& key, const std::string& what);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Descriptor folder_;
  std::string name_;
  Descriptor lock_;  // not open: nobody waits for this one
};

// What `find` gives, an optional, or else what `make` does, which is to write the entry. One thread of one process makes it.
template <class Find, class Make>
auto find_or_make(Kind kind, const std::string& key, const std::string& what, const Find& find, const Make& make) {
  if (auto found = find()) return *std::move(found);
  const Turn turn(kind, key, what);
  if (has(kind, key)) {
    if (auto found = find()) return *std::move(found);
  }
  return make();
}

}  // namespace torch_slang::cache
