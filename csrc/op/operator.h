// An Operator is one kernel of one Program as PyTorch sees it: what its arguments are, which shapes they have, and the
// compiled kernels it has so far. Or it is one plain function, mapped over its broadcast arguments (mapped.h). Immutable but for its table of kernels and what it has measured; shared by the registered op, by Module callables
// and by the graphs that were recorded with it, so a reload never changes what any of them runs.
#pragma once

#include <ATen/core/function_schema.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "op/kernel_table.h"
#include "op/layout.h"
#include "op/shape_plan.h"
#include "op/text_source.h"
#include "op/thread_choices.h"
#include "op/thread_share.h"
#include "program/program.h"

namespace torch_slang {

// LaunchJvp and LaunchBackward: the derivatives of the kernel, with all their memory given and a launch of the caller's.
enum class OpKind : int8_t { Forward, Backward, Launch, LaunchJvp, LaunchBackward };
constexpr int kOpKinds = 5;

inline bool is_launch(OpKind kind) {
  return kind == OpKind::Launch || kind == OpKind::LaunchJvp || kind == OpKind::LaunchBackward;
}
Direction direction_of(OpKind kind);  // of the device text that it runs
const char* name_of(OpKind kind);  // "forward", "backward", "launch", "fwd", "bwd"

// Where an argument of a registered op comes from.
struct OpArgument {
  // Gradient: of an output, in a backward; of any leaf (or its tangent), in a launch.
  enum class Role : int8_t { Leaf, Gradient, Mask, BlockSize, GridSize };
  Role role = Role::Leaf;
  int leaf = -1;  // for Leaf and Gradient
};

// One registered op of the family: its schema, and what its arguments and results mean.
struct OpSignature {
  std::string name;  // without namespace: "sqr_backward"
  std::vector<OpArgument> arguments;
  std::vector<int> results;  // leaves
  std::unique_ptr<c10::FunctionSchema> schema;
};

class Tuner;

struct Operator : std::enable_shared_from_this<Operator> {
  // `names`: of the module's kernels and functions, which launch operators ("sqr_bwd") leave to them.
  Operator(std::string ns, Function function, const std::vector<std::pair<std::string, int64_t>>& constants,
           std::shared_ptr<TextSource> texts, KernelOptions options, const std::set<std::string>& names = {});
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  bool is_mapped() const { return !function.is_kernel; }
  const OpSignature* signature(OpKind kind) const { return signatures[static_cast<int>(kind)].get(); }
  const std::string& qualified(OpKind kind) const { return qualified_names[static_cast<int>(kind)]; }

  const std::string ns;
  const Function function;
  const ShapePlan shapes;
  const Layout layout;
  std::string qualified_names[kOpKinds];  // "slang::sqr_backward"
  std::vector<int> outputs;  // leaves
  std::vector<int> differentiable;  // leaves that get a gradient, in order
  std::vector<int> grad_outputs;  // outputs that have one
  std::vector<ThreadShare> shares;  // by leaf; of views alone
  std::unique_ptr<const OpSignature> signatures[kOpKinds];  // null: this kind does not exist for this kernel
  // Blocks multiply matrices (Note [matrix kernels] in prelude/mma.h), so tuned variables are tiles of a GPU's.
  bool multiplies = false;
  const KernelOptions options;
  const std::shared_ptr<TextSource> texts;
  mutable KernelTable kernels;
  mutable ThreadChoices thread_choices;
  // Of a kernel with tuned variables: it has no compiled kernels of its own, but variants that have (op/tuner.h).
  std::shared_ptr<Tuner> tuner;
};

}  // namespace torch_slang
