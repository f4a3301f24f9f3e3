// Makes descriptors (program.h) of a module's kernels and functions from Slang's reflection. It also says why a function cannot
// be an operator.
#pragma once

#include <slang.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/reflect/elementwise_function.h"
#include "compiler/source/source_code.h"
#include "program/program.h"

namespace torch_slang {

// A Function and what only the writer of wrappers needs to know.
struct DescribedFunction {
  Function function;
  std::vector<bool> paired;  // of a kernel, for each parameter: bwd_diff takes a DifferentialPair of it
  ElementwiseCall call;  // of a plain function
  std::vector<std::string> parameter_types;  // as they are written, of refused functions too
  // Other functions have its name, Slang's own perhaps: a call chooses among them, but Slang finds no derivative by the name.
  bool shares_name = false;
  std::string imported_from;  // the file of the module that has it; empty: the described one
  std::optional<HostFunction> host;  // of a [TorchEntryPoint] function: its result; `function` is to be put into it
};

// The file with a path; null if it was not read.
using SourceOf = std::function<const SourceCode*(const std::string& path)>;

std::vector<DescribedFunction> describe_module(slang::ISession* session, slang::IModule* module,
                                               const std::string& file, const SourceOf& source_of);

// Names of the module's global shader parameters (uniforms, buffers), which no operator can have.
std::vector<std::string> shader_parameters(slang::IModule* module);

}  // namespace torch_slang
