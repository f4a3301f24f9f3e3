// One kernel or plain function of a Program as PyTorch is to see it: its arguments, their shapes, which are outputs, and which
// have gradients. Immutable.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "signature/shape_plan.h"

namespace torch_slang {

struct Declaration {
  // `constants`: what the shape language knows by name.
  Declaration(std::string ns, Function function, const std::vector<std::pair<std::string, int64_t>>& constants);

  // A plain function, mapped over its broadcast arguments (call/elementwise/elementwise.h).
  bool is_elementwise() const { return !function.is_kernel; }

  const std::string ns;
  const Function function;
  const ShapePlan shapes;
  std::vector<int> outputs;  // leaves
  std::vector<int> differentiable;  // leaves that get a gradient, in order
  std::vector<int> grad_outputs;  // outputs that have one
};

}  // namespace torch_slang
