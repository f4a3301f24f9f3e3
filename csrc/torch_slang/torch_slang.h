// torch_slang for C++: load a .slang file, and its kernels are operators of PyTorch's dispatcher, derivatives included.
//
//     torch_slang::load("cube.slang");
//     const auto cube = c10::Dispatcher::singleton().findSchemaOrThrow("slang::cube", "")
//                           .typed<at::Tensor(const at::Tensor&)>();
//     at::Tensor y = cube.call(x);
//
// A program links libtorch_slang (find_package(torch_slang)); no Python is needed.
#pragma once

#include <string>

#include "op/module.h"

namespace torch_slang {

// Throws CompileError if the source does not compile, c10::Error for everything else that is wrong.
inline LoadResult load(const std::string& path, LoadOptions options = {}) {
  options.path = path;
  return load_module(options);
}

}  // namespace torch_slang
