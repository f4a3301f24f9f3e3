#include "kernels/thread_share.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace torch_slang {
namespace {

constexpr int64_t kMostNumbers = 32;  // in registers

bool is_one(const Expression& e) { return e.kind == Expression::Kind::Constant && e.constant == 1; }

int64_t run_of(const std::vector<ShareDim>& dims, int64_t components) {
  int64_t run = components;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->axis == 0) return run;
    if (dim->axis > 0) return 0;
    run *= dim->size;
  }
  return 0;
}

}  // namespace

// Each axis of the launch is one of the view's dimensions (of several that fit, the inner one for x), or threads along it
// share their elements; the other dimensions are small constants.
ThreadShare thread_share(const Function& function, const ShapePlan& shapes, int leaf) {
  ThreadShare share;
  const auto nothing = [](std::string refusal) {
    ThreadShare none;
    none.refusal = std::move(refusal);
    return none;
  };
  if (!shapes.has_static_rank(leaf)) return nothing("it has no Shape");
  std::vector<Expression> launch = shapes.launch_dims();
  if (launch.empty()) return nothing("the launch is not along dimensions");
  while (launch.size() > 1 && is_one(launch.back())) launch.pop_back();
  const std::vector<Expression> dims = shapes.visible_dims(leaf);
  share.dims.resize(dims.size());
  for (size_t axis = 0; axis < launch.size(); ++axis) {
    size_t i = dims.size();
    while (i > 0 && !(share.dims[i - 1].axis < 0 && dims[i - 1] == launch[axis])) --i;
    if (i > 0)
      share.dims[i - 1].axis = static_cast<int>(axis);
    else
      share.missing.push_back(static_cast<int>(axis));
  }
  if (!share.missing.empty())
    share.refusal = c10::str("no dimension of it is the launch's along ", "xyz"[share.missing.front()],
                             ": threads there may share its elements");
  const auto& block = function.kernel().block_size;
  for (size_t axis = launch.size(); axis < block.size() && share.refusal.empty(); ++axis) {
    if (block[axis] != 1)
      share.refusal = c10::str("the block has several threads along ", "xyz"[axis], ", the launch one");
  }
  const int64_t components = component_count(function.leaves[leaf].element);
  share.numbers = components;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (share.dims[i].axis >= 0) continue;
    const bool is_constant = dims[i].kind == Expression::Kind::Constant && dims[i].constant >= 1;
    share.dims[i].size = is_constant ? dims[i].constant : kMostNumbers + 1;
    share.numbers *= std::min(share.dims[i].size, kMostNumbers + 1);
  }
  if (share.numbers > kMostNumbers) {
    return nothing(!share.refusal.empty()
                       ? share.refusal
                       : c10::str("each thread has more of it than registers hold (", kMostNumbers, " numbers)"));
  }
  share.run = run_of(share.dims, components);
  return share;
}

}  // namespace torch_slang
