// torch_slang for C++: load a .slang file, and its kernels are operators of PyTorch's dispatcher, derivatives included.
//
//     torch_slang::load("cube.slang");
//     const auto cube = c10::Dispatcher::singleton().findSchemaOrThrow("slang::cube", "")
//                           .typed<at::Tensor(const at::Tensor&)>();
//     at::Tensor y = cube.call(x);
//
// A program links libtorch_slang (find_package(torch_slang)); no Python is needed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_slang/error.h"

namespace torch_slang {

class Module;

// A define whose value is chosen by measurement.
struct TunedVariable {
  std::string name;
  std::vector<std::string> values;
};

// What Python's torch_slang.load takes.
struct LoadOptions {
  std::string path;  // made absolute; empty if `source` is given
  std::optional<std::string> source;
  std::string name;  // identity of `source`
  std::string ns = "slang";
  std::vector<std::pair<std::string, std::string>> defines;
  std::vector<TunedVariable> tuned;  // defines with a list of values to choose from
  std::vector<std::string> include_dirs;
  std::string annotations;  // JSON
  bool fast_math = false;
  std::optional<bool> debug;  // else TORCH_SLANG_DEBUG
};

struct LoadResult {
  std::shared_ptr<const Module> module;
  std::vector<std::string> changed;  // ops whose schema a reload changed: Python's cached handles are stale
  bool is_new = false;  // false: nothing had changed
};

// Loads a file: its kernels then are operators. Throws CompileError if the source does not compile, c10::Error for everything
// else that is wrong.
LoadResult load(const std::string& path, LoadOptions options = {});

}  // namespace torch_slang
