// Slang's text of one kernel.
#pragma once

#include <memory>
#include <string>

#include "compiler/emit/emitted_text.h"
#include "compiler/source/session.h"

namespace torch_slang {

// With the least optimisation where the optimised text may have lost copies: Note [lost copies]. Null on failure.
std::unique_ptr<EmittedText> emit_kernel(Session& session, slang::IModule* module, const std::string& entry,
                                         Differentials differentials, std::string* diagnostics);

}  // namespace torch_slang
