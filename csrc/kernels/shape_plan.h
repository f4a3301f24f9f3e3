// The shapes of one kernel, parsed and ordered at load: which names the arguments bind, the checks, how outputs and
// the launch follow. Immutable; one plan serves Meta (SymInt) and real launches (int64_t).
//
// Note [visible shape]
//   A tensor's shape is [leading..., dims..., element...]: what "..." stands for, the listed dimensions, and the trailing
//   dimensions of a vector or matrix element. A kernel sees [product(leading), dims...]: "..." flattened into one
//   dimension (present only if the Shape has it), the element inside the index.
#pragma once

#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "kernels/shape_expression.h"
#include "program/program.h"

namespace torch_slang {

template <class Int>
using Sizes = c10::SmallVector<Int, 5>;

// The shape of one view leaf as declared.
struct ViewShape {
  bool any = false;  // no Shape: whatever the tensor has
  bool leading = false;  // begins with "..."
  std::vector<Expression> dims;
  std::vector<bool> binds;  // dims[i] is a name that this tensor's size defines
  std::string text;  // "[N, 8, F]"
  int same_as = -1;  // an unshaped view leaf whose shape this one shares (implies `any`)
};

// What the arguments of a call bind.
template <class Int>
struct Bound {
  Sizes<Int> symbols;  // by symbol index; [kLeadingSymbol] is product(leading)
  Sizes<Int> leading;
  std::vector<Sizes<Int>> any_shapes;  // by leaf: full sizes of views without Shape (else empty)
};

constexpr int kLeadingSymbol = 0;

class ShapePlan {
 public:
  // Throws with the op's name, the parameter and the text if a shape or launch expression does not make sense.
  ShapePlan(std::string op, const Function& function, const std::vector<std::pair<std::string, int64_t>>& constants);

  const std::string& op() const { return op_; }
  const ViewShape& view(int leaf) const { return views_[leaf]; }
  int symbol_count() const { return static_cast<int>(symbol_names_.size()); }
  // The symbol that an integer parameter defines, or -1 if no expression uses it.
  int symbol_of_value(int leaf) const { return value_symbols_[leaf]; }
  // True if the kernel-visible rank of this view is known at load.
  bool has_static_rank(int leaf) const { return !views_[leaf].any; }
  // Kernel-visible dimensions of a view with a static rank.
  std::vector<Expression> visible_dims(int leaf) const;
  // How many threads there are along x, y and z, those left out being 1; empty if no expression says it.
  std::vector<Expression> launch_dims() const;

  // Binds and checks. `sizes[leaf]` are the full sizes of a tensor that is given (inputs; in a launch outputs too), empty
  // optional for those that are not; `values[leaf]` the integer parameters that expressions use. `op` is for messages.
  template <class Int>
  Bound<Int> bind(c10::ArrayRef<std::optional<c10::ArrayRef<Int>>> sizes, c10::ArrayRef<Int> values,
                  const std::string& op) const;

  // Full sizes (leading, dims, element) of an output.
  template <class Int>
  Sizes<Int> output_sizes(int leaf, const Bound<Int>& bound) const;

  // Threads in x, y, z.
  template <class Int>
  Sizes<Int> launch_total(const Bound<Int>& bound) const;

 private:
  void add_view(int leaf, const std::string& text);
  Expression resolve(const std::string& name, const std::string& where);
  int symbol(const std::string& name);
  std::string describe_symbol(int index) const;
  void check_all_bound() const;

  template <class Int>
  void bind_view(const std::string& op, int leaf, c10::ArrayRef<Int> sizes, Bound<Int>& bound,
                 bool& leading_known) const;
  template <class Int>
  void check_view(const std::string& op, int leaf, c10::ArrayRef<Int> sizes, const Bound<Int>& bound) const;

  std::string op_;
  const Function* function_;
  std::vector<std::pair<std::string, int64_t>> constants_;
  std::vector<std::string> symbol_names_;
  std::vector<std::string> symbol_origins_;  // parameter that binds it, for messages
  std::vector<bool> symbol_bound_;
  std::vector<ViewShape> views_;  // by leaf
  std::vector<int> value_symbols_;  // by leaf
  std::vector<Expression> launch_;
  int first_output_ = -1;
};

}  // namespace torch_slang
