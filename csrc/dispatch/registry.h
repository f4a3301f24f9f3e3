// Registration with PyTorch's dispatcher: which families exist, whose they are, and how a load or reload enters them. Any thread
// may call.
#pragma once

#include <c10/util/ArrayRef.h>

#include <memory>
#include <string>
#include <vector>

#include "operators/registered_op.h"

namespace torch_slang {

struct Publication {
  std::vector<std::string> changed;  // qualified names whose schema changed: cached handles in Python are stale
};

// Makes `operators` the current ones of their names, all or none: schemas are checked before anything is registered.
// Operators whose schemas are unchanged are swapped without touching the dispatcher. `owner`: the identity of their module.
Publication publish(const std::vector<std::shared_ptr<Operator>>& operators, const std::string& owner);

// The identity of the module that has the name "slang::sqr"; empty: none has it.
std::string owner_of(const std::string& full_name);

// The current operators of several families (null for a null one) at one moment, not in the middle of a reload.
std::vector<std::shared_ptr<const Operator>> current_together(c10::ArrayRef<const RegisteredFamily*> families);

// The family of a name ("slang", "sqr"), or null.
RegisteredFamily* find_family(const std::string& ns, const std::string& name);

}  // namespace torch_slang
