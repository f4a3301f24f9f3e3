// The examination of one derivative: the function in float64 where that can be had, at the arguments that were kept.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "audit/comparison.h"
#include "audit/finding.h"
#include "audit/problem.h"

namespace torch_slang::audit {

using MakeOperator = std::function<std::shared_ptr<Operator>(Function function, std::shared_ptr<TextSource> texts)>;

// Never throws but an Interrupted.
Verdict examine(const Operator& f, const MakeOperator& make, Order order, const std::vector<ElementType>& types,
                const std::vector<int64_t>& sizes, const Problem& problem);

}  // namespace torch_slang::audit
