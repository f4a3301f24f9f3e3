// The texts of a module, emitted by several processes: Note [forked tasks].
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// `make`: gives text i of those wanted. `progress` is told of the text of a fork that is waited for.
std::vector<DeviceText> make_texts(const std::vector<Instantiation>& wanted, size_t processes,
                                   const std::function<DeviceText(size_t)>& make,
                                   const std::function<void(const std::string&, const std::string&)>& progress);

}  // namespace torch_slang
