// Describes the parameters and results of a plain function: Note [elementwise functions] in program.h. Each becomes one or more
// leaves that are broadcast.
#pragma once

#include <slang.h>

#include <string>
#include <vector>

#include "compiler/reflect/parameter_texts.h"
#include "compiler/reflect/types.h"
#include "program/program.h"

namespace torch_slang {

enum class Passing { In, Out, InOut };

// What a wrapper needs beside the descriptor: of one parameter, or of the returned value (an Out).
struct PassedValue {
  std::string type;  // as Slang writes it; type and size parameters by their names
  Passing passing = Passing::In;
  bool paired = false;  // bwd_diff takes it as a DifferentialPair, or, of what only comes out, its differential
  int input = -1;  // index into Function::parameters
  int result = -1;  // index into Function::results
};

// How a plain function is called.
struct ElementwiseCall {
  std::string name;  // "ns.f"; of a method, its own: "eval"
  std::string owner;  // of a method, its struct: "ns.Weights", "Grid<N, T>"
  bool is_static = false;
  std::vector<std::string>
      generic_arguments;  // the function's type and size parameters, in the order of its declaration
  std::vector<PassedValue> parameters;  // of a method that is not static, `this` first
  PassedValue returned;  // result -1: void
};

inline constexpr const char* kGivesNothing =
    "it gives nothing: it returns void, has no out parameters and stores to no tensor";

// Fills the function's parameters, results and leaves, and what the call needs but its name and generic arguments.
// `owner`: the struct of a method, else null. Throws Refusal, naming the parameter and the rule that it breaks.
void describe_elementwise_function(Function& function, ElementwiseCall& call, slang::FunctionReflection* reflection,
                                   slang::TypeReflection* owner, const std::vector<ParameterText>& texts,
                                   const TypeReader& types, bool differentiable);

}  // namespace torch_slang
