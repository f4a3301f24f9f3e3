#include "op/faults.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace torch_slang {

namespace {

std::string triple(const unsigned (&values)[3]) {
  return c10::str("(", values[0], ", ", values[1], ", ", values[2], ")");
}

std::string element(const std::string& view, const TslFault& fault) {
  std::string text = view + "[";
  const unsigned count = std::min<unsigned>(fault.count, kTslMaxDims);
  for (unsigned i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(fault.index[i]);
  return text + "]";
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

FaultRecord::FaultRecord(const Operator& op, OpKind kind, c10::Device device, const std::vector<ElementType>& types,
                         const std::vector<int64_t>* sizes)
    : op_(op), kind_(kind), types_(types), sizes_(sizes), exists_(op.options.checks(device) != Checks::None) {
  if (!exists_ || device.is_cpu()) return;
  on_gpu_ = at::zeros({static_cast<int64_t>(sizeof(TslFault))}, at::TensorOptions().dtype(at::kByte).device(device));
}

TslFault* FaultRecord::address() {
  if (!exists_) return nullptr;
  return on_gpu_.defined() ? static_cast<TslFault*>(on_gpu_.mutable_data_ptr()) : &here_;
}

std::string FaultRecord::view_name(int view) const {
  for (const Leaf& leaf : op_.function.leaves) {
    if (leaf.kind != LeafKind::View) continue;
    if (leaf.primal_view == view) return leaf.path;
    if (leaf.diff_view == view)
      return (direction_of(kind_) == Direction::Jvp ? "tangent of " : "gradient of ") + leaf.path;
  }
  return "view " + std::to_string(view);
}

// "sqr.slang:12", or nothing.
std::string FaultRecord::describe_line(const TslFault& fault) const {
  const std::vector<int64_t> sizes = sizes_ == nullptr ? std::vector<int64_t>() : *sizes_;
  const auto& files = op_.texts->text(op_.function.name, direction_of(kind_), types_, sizes).files;
  if (fault.file >= files.size() || fault.line == 0) return "";
  return c10::str(file_name(files[fault.file]), ":", fault.line);
}

std::string FaultRecord::describe_place(const TslFault& fault) const {
  std::string text = c10::str("thread ", triple(fault.thread), " of block ", triple(fault.block));
  const std::string line = describe_line(fault);
  return line.empty() ? text : text + ", " + line;
}

// A mapped function's loop over elements is not the user's, so its threads are nobody's concern.
void FaultRecord::refuse_long_loop(const TslFault& fault) const {
  const std::string line = describe_line(fault);
  const std::string thread = c10::str(" (thread ", triple(fault.thread), " of block ", triple(fault.block), ")");
  TORCH_CHECK(
      false, op_.qualified(kind_), ": the loop ", line.empty() ? "of " + op_.function.name : "at " + line,
      " runs longer than its [MaxIters(n)] says, or without one than Slang concluded, and its gradients need what "
      "each iteration leaves: raise n",
      op_.is_mapped() ? "" : thread);
}

void FaultRecord::check() {
  if (on_gpu_.defined()) std::memcpy(&here_, on_gpu_.cpu().const_data_ptr(), sizeof here_);
  const TslFault& fault = here_;
  if (fault.kind == kTslNoFault) return;
  if (fault.kind == kTslLongLoop) refuse_long_loop(fault);
  const std::string what = op_.qualified(kind_) + ": " + element(view_name(fault.view), fault);
  const std::string place = describe_place(fault);
  switch (fault.kind) {
    case kTslOutOfBounds:
      TORCH_CHECK_INDEX(false, what, ": index ", fault.index[std::min<int>(fault.dimension, kTslMaxDims - 1)],
                        " is outside dimension ", fault.dimension, ", which has ", fault.size, " elements (", place,
                        ")");
    case kTslWrongRank:
      TORCH_CHECK_INDEX(false, what, ": ", fault.count, fault.count == 1 ? " index" : " indices", " for a view of ",
                        fault.size, fault.size == 1 ? " dimension (" : " dimensions (", place, ")");
    case kTslNotFixed:
      TORCH_CHECK(false, what,
                  ": loadFixed promises that all threads name the same element, but another thread of the "
                  "wave names another one (",
                  place, ")");
    default:
      TORCH_CHECK(false, what,
                  ": this element was promised to one thread alone, once (loadUniform: to one thread), but "
                  "thread ",
                  fault.other, " of the launch has used it before (", place, ")");
  }
}

}  // namespace torch_slang
