// What a thread of a launch has of each view, from the shapes alone: its own elements, and those that it shares with the
// threads along some axes. Note [own elements] in prelude/own.h and Note [words] in prelude/words.h live on it.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "program/program.h"

namespace torch_slang {

struct KernelKey;
struct Operator;
enum class OpKind : int8_t;

struct ThreadShare {
  std::vector<ShareDim> dims;  // empty: nothing is known
  std::string refusal;  // why no thread has these elements to itself; empty if it has
  std::vector<int> missing;  // axes of the launch along which threads have the same elements
  int64_t numbers = 1;  // of all its elements together
  // How many of them follow each other in a contiguous tensor, up to where those of the next thread along x begin; 0 if it
  // is not they that follow.
  int64_t run = 0;
};

ThreadShare thread_share(const Operator& op, int leaf);

// Why threads have no elements of this view to themselves; empty if they may.
std::string why_not_own(const Operator& op, int leaf);

// Bytes that a thread is likely to read: of each view that is read its own elements, or one.
int64_t own_bytes(const Operator& op, OpKind kind, const std::vector<ElementType>& types);

// The axis along which threads share elements of a gradient, for each of those that are wanted: the outermost such axis, or
// -1.
int shared_axis(const Operator& op, const KernelKey& key);

// Whether threads along the axis share elements of this leaf's gradient, and add them up in registers.
bool is_kept_shared(const Operator& op, int leaf, const VirtualThreads& threads);

// How many threads along x have together as much of each view as fills whole words; 1 if there are none.
int lanes_of_words(const Operator& op, OpKind kind, const std::vector<ElementType>& types);

}  // namespace torch_slang
