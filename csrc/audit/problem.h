// Arguments of a call that were kept for an audit: where nobody changes them, and few enough to be audited in a moment. Of a plain
// function some elements, each a row by itself; of a kernel, or of a function that sees tensors whole, copies of all, or of a part.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operators/operator.h"

namespace torch_slang::audit {

struct Problem {
  std::vector<c10::IValue> values;  // by leaf of f; None for outputs
  bool is_part = false;  // of tensors that are too large: Note [cut problems] in cut.h
  int64_t rows = 0;  // that are compared one by one; 0: all elements together
  std::string refusal;  // not empty: why nothing was kept
  std::shared_ptr<const c10::Event> made;  // when a GPU has made the copies

  // On the CPU, waiting for a GPU. Floating-point tensors become float64 if `in_double`.
  Problem on_cpu(bool in_double) const;

 private:
  at::Tensor on_cpu(const at::Tensor& tensor) const;
};

// Of a call of f's backward, or of the backward of f's tangents. None where there are no elements, while a GPU's work is captured, and,
// unless `takes_parts`, where tensors are too large to be copied.
std::optional<Problem> keep_problem(const Operator& f, const Operator& called, Operator::Stack arguments,
                                    bool takes_parts);

}  // namespace torch_slang::audit
