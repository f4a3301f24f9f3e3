// Functions with a [BackwardDerivative] of the user's own and no [ForwardDerivative]: Slang gives them a forward derivative
// of zeros, or none at all, without a word. So the forward derivative of a caller must be refused.
#pragma once

#include <slang.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/text/code.h"
#include "compiler/text/code_names.h"

namespace torch_slang {

// Such functions, by name, in the user's modules of a session: as Slang's reflection shows them, so whatever macros and
// conditions are around them. (Our attributes stand beside Slang's: Note [kernel attributes].)
std::set<std::string> backward_only_functions(slang::ISession* session);

// The functions for which the user's modules name a forward derivative, and the name of that one.
std::vector<std::pair<std::string, std::string>> own_forward_derivatives(slang::ISession* session);

// The functions for which the user's modules name a derivative of either direction.
std::set<std::string> functions_with_own_derivatives(slang::ISession* session);

// Whether, in sources whose code has these names, a value may be a constant of derivatives because the user says so.
bool may_have_constants(const NameSet& names);

// Whether sources whose code has these names may hide calls: functions that are inlined early leave no name behind.
bool may_hide_calls(const NameSet& names);

// Whether the text that Slang has emitted for a kernel may call the function `name` of the source: emitted names have a
// number behind them, and those of methods their type in front. Operators are named otherwise there: any may be called.
bool may_call(const Code& emitted, const std::string& name);

}  // namespace torch_slang
