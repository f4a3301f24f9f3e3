// The operators of one family, "slang::sqr" and its backward and launches: their kinds, their schemas, and what their
// arguments mean.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/packed_arguments.h"
#include "program/enumerations.h"

namespace torch_slang {

// LaunchJvp and LaunchBackward: the derivatives of the kernel, with all their memory given and a launch of the caller's.
enum class OpKind : int8_t { Forward, Backward, Launch, LaunchJvp, LaunchBackward };
constexpr int kOpKinds = 5;

inline bool is_launch(OpKind kind) {
  return kind == OpKind::Launch || kind == OpKind::LaunchJvp || kind == OpKind::LaunchBackward;
}
inline bool is_backward(OpKind kind) { return kind == OpKind::Backward || kind == OpKind::LaunchBackward; }
Direction direction_of(OpKind kind);  // of the device text that it runs
const char* name_of(OpKind kind);  // "forward", "backward", "launch", "fwd", "bwd"
OpKind kind_named(const std::string& name);  // throws c10::Error for another name

// Where an argument of a registered op comes from.
struct OpArgument {
  // Gradient: of an output, in a backward; of any leaf (or its tangent), in a launch. SampleDims: how many dimensions of samples
  // stand in front of each tensor's own (operators/sampled_operator.h).
  enum class Role : int8_t { Leaf, Gradient, Mask, BlockSize, GridSize, SampleDims };
  Role role = Role::Leaf;
  int leaf = -1;  // for Leaf and Gradient
};

// One registered op of the family: its schema, and what its arguments and results mean.
struct OpSignature {
  std::string name;  // without namespace: "sqr_backward"
  std::vector<OpArgument> arguments;
  std::vector<int> results;  // leaves
  std::unique_ptr<c10::FunctionSchema> schema;
  std::unique_ptr<const PackedArguments> packed;  // null where the dispatcher takes the schema: Note [packed arguments]

  const c10::FunctionSchema& registered_schema() const { return packed == nullptr ? *schema : packed->schema(); }
};

}  // namespace torch_slang
