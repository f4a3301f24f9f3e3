// Which functions a function may call, from the sources' texts alone.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "compiler/source/session.h"
#include "compiler/text/code_names.h"

namespace torch_slang {

// Whether calls may stand in the sources that no name shows: of operators, constructors, accessors, and in macros.
bool has_nameless_calls(const Session& session, const CompileRequest& request);

// One of these functions that the function may call, where there are no nameless calls. What it calls goes by last names.
std::optional<std::string> named_callee(const Session& session, const std::set<std::string>& among,
                                        const std::string& function);

// Of all files as Slang sees them, which may have lost a [ForceInline]: Note [inlined backwards]. `source`: of the request's own.
NameSet names_for_slang(const Session& session, const CompileRequest& request, const std::string& source);

}  // namespace torch_slang
