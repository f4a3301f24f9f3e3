// Facts about an operator's compiled kernels, and the reasons for them, for people to read (Module.explain in Python).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_slang {

struct GradientFacts {
  struct Place {
    std::string file;
    int line = 0;
  };
  std::string argument;
  // "registers", "memory" (added to without atomics), "atomics", "replicas", "records", "unwanted", "parts". Of a plain
  // function "stored", "stored, then summed", "parts", "parts of rows", "parts of columns", "unwanted"; of a tensor that it
  // sees whole "registers", "sums, then atomics", "sums, then replicas", "atomics", "replicas", "records".
  std::string kept;
  int summed_along = -1;  // the axis whose threads add up in registers before they add to memory
  std::string why;  // not in registers; empty if it is
  std::vector<Place> places;  // of the user's statements that touch elements which are not a thread's own
};

struct KernelFacts {
  std::string kind;    // "forward"
  std::string values;  // "BM=64" of a variant that was chosen; empty where nothing is tuned
  std::vector<std::string> types;
  std::string device;
  std::string loop;  // of a plain function: over "elements", or over "rows" of them; else empty
  int registers = 0;  // 0 on the host
  std::vector<uint32_t> block;  // that alone it was compiled for, since registers suffice for no kernel of any block
  int virtual_threads = 1;
  bool is_measured = false;  // for the last launch, they were chosen by measurement
  int axis = 0;
  int lanes = 1;  // of them load and store vectors together; elements that a plain function's thread has at a time
  bool has_wave_sums = false;  // lanes of a GPU's wave sum what they add to the same elements
  bool has_tiled_waves = false;  // Note [tiled waves] in prelude/device_loop.h
  bool has_bounds = false;  // the launch's bounds are told to the compiler
  bool meets = false;  // barriers or wave operations
  bool independent = true;  // no-alias promises hold
  std::vector<std::string> strided;  // arguments that are not contiguous
  uint64_t threads = 0;  // of the last launch; of a plain function its elements
  uint64_t bytes = 0;  // of the last launch's views
  std::vector<GradientFacts> gradients;
};

}  // namespace torch_slang
