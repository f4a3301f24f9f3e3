#include "backend/cpu/index_fault.h"

#include <c10/util/Exception.h>

namespace torch_slang {
namespace {

thread_local IndexFaults* innermost = nullptr;

}  // namespace

IndexFaults::IndexFaults() : outer_(innermost) { innermost = this; }

IndexFaults::~IndexFaults() { innermost = outer_; }

void IndexFaults::report(int view, int dimension, unsigned index, unsigned size) {
  IndexFaults* faults = innermost;
  if (faults == nullptr || faults->any_) return;
  faults->any_ = true;
  faults->view_ = view;
  faults->dimension_ = dimension;
  faults->index_ = index;
  faults->size_ = size;
}

void IndexFaults::check(const std::string& op) const {
  TORCH_CHECK_INDEX(!any_, op, ": index ", index_, " is outside dimension ", dimension_, " of view ", view_,
                    ", which has ", size_, " elements");
}

}  // namespace torch_slang
