// Finds constructs in a source over which Slang's compiler is known to crash. If it does, the message names them.
#pragma once

#include <string>

namespace torch_slang {

// Note [crashes]
//   Slang 2026.12 dies over the derivatives of some constructs, by a signal and without a word. Known constructs are looked for
//   in the tokens of the source before it begins, and said if it dies: it may be the cause, and is no error in itself.
// One line for each place, "file:3: what; what to write instead", behind a line that introduces them; or nothing.
// `function`: the operator that is compiled; lines of functions that it does not call are left out. Empty: all are looked at.
std::string crash_hints(const std::string& source, const std::string& path, bool second_derivative = false,
                        const std::string& function = {});

// Whether Slang says that it gave up over what it cannot do, and not over an error of the source. It says so of derivatives of
// methods (E40017) and of interfaces that functions return (E50101), as of what stops it.
bool is_crash(const std::string& diagnostics);

}  // namespace torch_slang
