// Temporary folders of processes that were killed, which nobody else removes.
//
// Note [whose folder is left over]
//   An owner holds a lock on its folder (flock), which the system lets go of when the process ends, however it ends. So a
//   folder that can be locked has no owner; one that is young may not have been locked yet. Numbers of processes would not
//   tell: containers that share a folder count for themselves. Where locks do not work nobody gets one, and all stays.
#pragma once

#include <string>

#include "common/descriptor.h"

namespace torch_slang {

// The owner's lock; not open if there can be none.
Descriptor lock_folder(const std::string& folder);

// Removes this user's folders `<prefix>-??????` in `root` that are left over, once in a process for each root.
void remove_leftovers(const std::string& root, const std::string& prefix);

}  // namespace torch_slang
