// Registration with PyTorch's dispatcher: which families exist, and how a load or reload enters them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operator/registered_op.h"

namespace torch_slang {

struct Publication {
  std::vector<std::string> changed;  // qualified names whose schema changed: cached handles in Python are stale
};

// Makes `operators` the current ones of their names, all or none: schemas are checked before anything is registered.
// Operators whose schemas are unchanged are swapped without touching the dispatcher.
Publication publish(const std::vector<std::shared_ptr<Operator>>& operators);

// The family of a name ("slang", "sqr"), or null.
RegisteredFamily* find_family(const std::string& ns, const std::string& name);

}  // namespace torch_slang
