#include "operators/faults.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "common/interrupts.h"
#include "torch_slang/error.h"

namespace torch_slang {

namespace {

constexpr unsigned kMostSigned = 0x7fffffffu;

std::string triple(const unsigned (&values)[3]) {
  return c10::str("(", values[0], ", ", values[1], ", ", values[2], ")");
}

// As a negative number what can be nothing else: indices are unsigned in Slang, and an array is not so long.
std::string index_text(unsigned index, unsigned size) {
  return index > kMostSigned && size <= kMostSigned ? std::to_string(static_cast<int>(index)) : std::to_string(index);
}

// The index or size of an array, vector or matrix, in two words.
std::string local_index_text(const TslFault& fault) {
  const uint64_t index = uint64_t{fault.index[1]} << 32 | fault.index[0];
  if (index >> 32 != 0) return std::to_string(static_cast<int64_t>(index));
  return index_text(fault.index[0], fault.size);
}

std::string counted(uint64_t count, const char* one, const char* many) {
  return c10::str(count, " ", count == 1 ? one : many);
}

std::string element(const std::string& view, const TslFault& fault) {
  std::string text = view + "[";
  const unsigned count = std::min<unsigned>(fault.count, kTslMaxDims);
  for (unsigned i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + index_text(fault.index[i], fault.size);
  return text + "]";
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string describe_local(unsigned kind, uint64_t count) {
  switch (kind) {
    case 0: return "an array of " + counted(count, "element", "elements");
    case 1: return "a matrix of " + counted(count, "row", "rows");
    case 2: return "a vector of " + counted(count, "component", "components");
    default: return "every view: their indices are 0 to 4294967295, of 32 bits";
  }
}

void throw_stopped(const std::string& what, LaunchWatch::Reason reason, const KernelOptions& options,
                   const std::string& where) {
  if (reason == LaunchWatch::Reason::Interrupt) {
    check_interrupts();
    throw_launch_error(what, " was interrupted by Ctrl-C (SIGINT)", where);
  }
  throw_launch_error(what, " was stopped since it took longer than the ", options.launch_limit.value_or(0),
                     " s that TORCH_SLANG_LAUNCH_TIMEOUT allows", where);
}

FaultRecord::FaultRecord(const Signature& op, OpKind kind, const Arguments& arguments, bool names_threads)
    : op_(op),
      kind_(kind),
      arguments_(arguments),
      names_threads_(names_threads),
      exists_(op.options.checks(arguments.device) != Checks::None || op.options.polls(arguments.device)) {
  const c10::Device device = arguments.device;
  if (op.options.polls(device)) {
    watch_.emplace(&here_.stop, op.options.limit());
    check_interrupts();  // Ctrl-C may have come before, while the kernel was compiled
  }
  if (!exists_ || device.is_cpu()) return;
  on_gpu_ = at::zeros({static_cast<int64_t>(sizeof(TslFault))}, at::TensorOptions().dtype(at::kByte).device(device));
}

TslFault* FaultRecord::address() {
  if (!exists_) return nullptr;
  return on_gpu_.defined() ? static_cast<TslFault*>(on_gpu_.mutable_data_ptr()) : &here_;
}

std::string FaultRecord::view_name(int view) const {
  for (const Leaf& leaf : op_.function.leaves) {
    if (!leaf.is_view()) continue;
    if (leaf.place().primal_view == view) return leaf.path;
    if (leaf.diff_view() == view)
      return (op_.direction(kind_) == Direction::Jvp ? "tangent of " : "gradient of ") + leaf.path;
  }
  return "view " + std::to_string(view);
}

// "sqr.slang:12", or nothing.
std::string FaultRecord::describe_line(const TslFault& fault) const {
  const auto& files = op_.text(kind_, arguments_.types, arguments_.sizes).files;
  if (fault.file >= files.size() || fault.line == 0) return "";
  return c10::str(file_name(files[fault.file]), ":", fault.line);
}

std::string FaultRecord::describe_thread(const TslFault& fault) const {
  return names_threads_ ? c10::str("thread ", triple(fault.thread), " of block ", triple(fault.block)) : "";
}

std::string FaultRecord::describe_place(const TslFault& fault) const {
  const std::string thread = describe_thread(fault), line = describe_line(fault);
  const std::string both = thread + (thread.empty() || line.empty() ? "" : ", ") + line;
  return both.empty() ? "" : " (" + both + ")";
}

void FaultRecord::refuse_long_loop(const TslFault& fault) const {
  const std::string thread = describe_thread(fault), line = describe_line(fault);
  TORCH_CHECK(
      false, op_.qualified(kind_), ": the loop ", line.empty() ? "of " + op_.function.name : "at " + line,
      " runs longer than its [MaxIters(n)] says, or without one than Slang's own bound, and its gradients need the "
      "values of each iteration: raise n",
      thread.empty() ? "" : " (" + thread + ")");
}

void FaultRecord::refuse_stopped(LaunchWatch::Reason reason) const {
  const std::string loop = here_.kind == kTslStopped ? "; it was in a loop" + describe_place(here_) : "";
  throw_stopped(op_.qualified(kind_) + ": the launch", reason, op_.options, loop);
}

std::string FaultRecord::describe_view_fault(const TslFault& fault) const {
  switch (fault.kind) {
    case kTslOutOfBounds:
      return c10::str(": index ", index_text(fault.index[std::min<int>(fault.dimension, kTslMaxDims - 1)], fault.size),
                      " is outside dimension ", fault.dimension, ", which has ", fault.size, " elements");
    case kTslWrongRank:
      return c10::str(": ", counted(fault.count, "index", "indices"), " for a view of ",
                      counted(fault.size, "dimension", "dimensions"));
    case kTslNotFixed:
      return ": loadFixed promises that all threads name the same element, but another thread of the wave names "
             "another "
             "one";
    case kTslUsedBesidePromise:
      return c10::str(
          ": this access promises nothing, but thread ", fault.other,
          " of the launch uses the element by loadOnce or loadUniform (storeOnce or storeUniform), which promise "
          "that no other thread reaches it, the Once forms that nothing else does");
    default:
      return c10::str(": this element was promised to one thread alone, once (loadUniform: to one thread), but thread ",
                      fault.other, " of the launch has used it before");
  }
}

void FaultRecord::check() {
  const c10::Device device = arguments_.device;
  if (!exists_ || backend_for(device.type()).is_capturing(device)) return;
  if (watch_) {
    const LaunchWatch::Reason reason = watch_->end();
    const bool is_cause =
        here_.kind == kTslNoFault || here_.kind == kTslStopped;  // else the fault may be why it did not end
    if (reason == LaunchWatch::Reason::Interrupt || (reason == LaunchWatch::Reason::TimeLimit && is_cause))
      refuse_stopped(reason);
  }
  if (on_gpu_.defined()) std::memcpy(&here_, on_gpu_.cpu().const_data_ptr(), sizeof here_);
  const TslFault& fault = here_;
  const std::string& name = op_.qualified(kind_);
  const std::string place = fault.kind == kTslNoFault ? "" : describe_place(fault);
  switch (fault.kind) {
    case kTslNoFault: return;
    case kTslLongLoop: refuse_long_loop(fault);
    case kTslLocalIndex:
      TORCH_CHECK_INDEX(false, name, ": index ", local_index_text(fault), " is outside ",
                        describe_local(fault.other, fault.size), place);
    case kTslDivision:
      TORCH_CHECK(false, name,
                  fault.other == 0 ? ": an integer is divided by zero"
                                   : ": the smallest integer is divided by -1, which gives none of its type",
                  place);
    case kTslNoDimension:
      TORCH_CHECK_INDEX(false, name, ": ", view_name(fault.view), " has ",
                        counted(fault.size, "dimension", "dimensions"), ", but its size or stride along dimension ",
                        index_text(fault.index[0], 0), " is asked for", place);
    default: break;
  }
  const std::string what =
      c10::str(name, ": ", element(view_name(fault.view), fault), describe_view_fault(fault), place);
  TORCH_CHECK_INDEX(fault.kind != kTslOutOfBounds && fault.kind != kTslWrongRank, what);
  TORCH_CHECK(false, what);
}

}  // namespace torch_slang
