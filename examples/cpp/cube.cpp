// Loads a Slang kernel and trains through it: no Python in this process.
//     cube <cube.slang>
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch_slang/torch_slang.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: cube <cube.slang>\n";
    return 2;
  }
  try {
    torch_slang::load(argv[1]);
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return 1;
  }
  const auto cube =
      c10::Dispatcher::singleton().findSchemaOrThrow("slang::cube", "").typed<at::Tensor(const at::Tensor&)>();

  // Finds the cube root of 27 by Newton's method, with the kernel's own derivative.
  at::Tensor x = at::full({1}, 10.0, at::kDouble).set_requires_grad(true);
  for (int step = 0; step < 20; ++step) {
    const at::Tensor y = cube.call(x) - 27;
    const at::Tensor slope = torch::autograd::grad({y.sum()}, {x})[0];
    x = (x.detach() - y.detach() / slope).set_requires_grad(true);
  }
  std::cout << "cube root of 27: " << x.item<double>() << "\n";
  return std::abs(x.item<double>() - 3) < 1e-9 ? 0 : 1;
}
