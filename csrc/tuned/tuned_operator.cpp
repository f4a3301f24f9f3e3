#include "tuned/tuned_operator.h"

namespace torch_slang {

std::vector<KernelFacts> TunedOperator::explain() const {
  std::vector<KernelFacts> all;
  for (const auto& [values, variant] : tuner_.in_use()) {
    for (KernelFacts& facts : variant->explain()) {
      facts.values = values;
      all.push_back(std::move(facts));
    }
  }
  return all;
}

}  // namespace torch_slang
