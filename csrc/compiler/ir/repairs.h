// The table of the repairs of Slang's derivatives that are made in a module's serialized instructions: behind Slang's type checker, so
// whatever the source looks like, and before any derivative is made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/left_out_repairs.h"

namespace torch_slang {

enum class Chains { Whole, Broken };  // Note [long chains]
enum class Stores { AsWritten, Apart };  // Note [nested stores]

// A module in Slang's own form, changed. What Slang notes for debuggers is dropped; throws where the form is not known.
// `refusal`: why its derivatives would be wrong, Note [lost derivatives]; empty if they are not.
std::string repaired_module(const std::string& module, std::string* refusal, const LeftOutRepairs& left_out = {},
                            Stores stores = Stores::AsWritten, Chains chains = Chains::Whole);

// Their names, in the order in which they are made.
std::vector<std::string_view> repairs_of_modules();

}  // namespace torch_slang
