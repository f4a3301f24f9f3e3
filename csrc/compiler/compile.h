// One request, one Slang session: descriptors of the module and the texts asked for.
#pragma once

#include <functional>
#include <string>

#include "compiler/source/session.h"
#include "program/program.h"

namespace torch_slang {

// Texts: those that the request asks for, else the usual ones. AllTypes: generic kernels for each type that they allow.
enum class Extent { DescribeOnly, Texts, AllTypes };

// The session is made for the same request, and used once. Tearing it down takes a fifth of a small compile: a program
// that ends anyway had better not.
// `progress` is told what comes next ("the backward of sqr for float64"), so that a crash can be blamed.
// Throws CompileError whose message is meant for the user as it is.
Program compile_request(Session& session, const CompileRequest& request, Extent extent,
                        const std::function<void(const std::string&)>& progress);

}  // namespace torch_slang
