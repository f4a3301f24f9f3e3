// Indices outside their view, as kernels compiled in debug mode report them. A kernel cannot stop in the middle of a block,
// so it goes on with index 0 and the launch throws when its blocks are done.
#pragma once

#include <string>

namespace torch_slang {

// Lives while compiled code runs on this OS thread, and keeps the first fault.
class IndexFaults {
 public:
  IndexFaults();
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;
  IndexFaults& operator=(const IndexFaults&) = delete;

  // What compiled code calls (launcher_text.h).
  static void report(int view, int dimension, unsigned index, unsigned size);

  // Throws a c10::Error (an IndexError in Python) if there was a fault.
  void check(const std::string& op) const;

 private:
  IndexFaults* outer_;
  bool any_ = false;
  int view_ = 0;
  int dimension_ = 0;
  unsigned index_ = 0;
  unsigned size_ = 0;
};

}  // namespace torch_slang
