// One request, one Slang session: descriptors of the module and the texts asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/emit/passes.h"
#include "compiler/source/session.h"
#include "program/program.h"

namespace torch_slang {

// Texts: those that the request asks for, else the usual ones. AllTypes: generic kernels for each type that they allow.
enum class Extent { DescribeOnly, Texts, AllTypes };

// Is told what comes next ("the backward of sqr for float64") and of which function, if of one, so that a crash can be blamed.
using Progress = std::function<void(const std::string& what, const std::string& function)>;
// Is given each text, what Slang emitted for it, and how often each pass applied.
using TextObserver =
    std::function<void(const DeviceText& text, const std::string& emitted, const std::vector<PassCount>& counts)>;

// Is given the description as soon as it is there, before the texts are made: all but those and the host functions' text.
using DescriptionObserver = std::function<void(const Program& description)>;

// The session is made for the same request, and used once. Tearing it down takes a fifth of a small compile: a program
// that ends anyway had better not.
// Texts are made by forks of this process, if it may fork: Note [forked tasks].
// Throws CompileError whose message is meant for the user as it is.
Program compile_request(Session& session, const CompileRequest& request, Extent extent, const Progress& progress,
                        const TextObserver& observer = {}, const DescriptionObserver& described = {});

}  // namespace torch_slang
