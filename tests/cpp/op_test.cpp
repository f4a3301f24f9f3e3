#include <boost/test/unit_test.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "common/files.h"
#include "common/temporary_folder.h"
#include "kernels/shape_expression.h"
#include "torch_slang/error.h"
#include "torch_slang/torch_slang.h"

BOOST_AUTO_TEST_SUITE(op_test)

// torch_slang without Python: load, call through the dispatcher, differentiate, and what errors look like.

using namespace torch_slang;

namespace {

// Everything that a test writes goes here, the cache included.
struct Workplace {
  Workplace() { ::setenv("TORCH_SLANG_CACHE_DIR", folder.file("cache").c_str(), 1); }
  static TemporaryFolder folder;
};
TemporaryFolder Workplace::folder{"torch_slang_op_test"};

std::string kernel(const std::string& name, const std::string& value) {
  return "import torch_slang;\n"
         "[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]\n"
         "void " +
         name +
         "<T : IReal>([Shape(\"...\")] DiffTensorView<T> x, T s, [Out(\"...\")] DiffTensorView<T> y)\n"
         "{\n"
         "    uint i = cudaGlobalIdx().x;\n"
         "    if (i < x.size(0)) y[i] = " +
         value +
         ";\n"
         "}\n";
}

LoadResult load_text(const std::string& name, const std::string& text, LoadOptions options = {}) {
  const std::string path = Workplace::folder.file(name + ".slang");
  std::ofstream(path) << text;
  return load(path, std::move(options));
}

c10::TypedOperatorHandle<at::Tensor(const at::Tensor&, const at::Tensor&)> find(const std::string& name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name.c_str(), "")
      .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
}

// The message of the exception of type Error that `function` throws.
template <class Error, class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  BOOST_FAIL("no error of that type");
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("not in: " << text);
  return false;
}

}  // namespace

BOOST_GLOBAL_FIXTURE(Workplace);

BOOST_AUTO_TEST_CASE(a_loaded_kernel_runs_and_has_gradients) {
  load_text("product", kernel("product", "s * x[i] * x[i]"));
  const auto product = find("slang::product");
  const at::Tensor x = at::randn({3, 4}, at::kDouble).set_requires_grad(true);
  const at::Tensor s = at::full({}, 3.0, at::kDouble).set_requires_grad(true);
  const at::Tensor y = product.call(x, s);
  BOOST_TEST(at::allclose(y, s * x * x));
  const auto weights = at::randn({4, 3}, at::kDouble).t();
  const auto grads = torch::autograd::grad({y}, {x, s}, {weights});
  BOOST_TEST(at::allclose(grads[0], 2 * s * x * weights));
  BOOST_TEST(at::allclose(grads[1], (x * x * weights).sum()));
}

BOOST_AUTO_TEST_CASE(loading_again_does_nothing_and_an_edit_reloads) {
  const auto first = load_text("again", kernel("again", "x[i]"));
  BOOST_TEST(first.is_new);
  BOOST_TEST(load_text("again", kernel("again", "x[i]")).module == first.module);
  const at::Tensor x = at::ones({2}).set_requires_grad(true);
  const at::Tensor recorded = find("slang::again").call(x, at::ones({}));
  const auto second = load_text("again", kernel("again", "T(5) * x[i]"));
  BOOST_TEST(second.is_new);
  BOOST_TEST(second.changed.empty());  // the schema is the same
  BOOST_TEST(find("slang::again").call(x, at::ones({}))[0].item<float>() == 5);
  BOOST_TEST(torch::autograd::grad({recorded.sum()}, {x})[0][0].item<float>() == 1);
}

BOOST_AUTO_TEST_CASE(options_separate_modules) {
  LoadOptions options;
  options.ns = "elsewhere";
  options.defines = {{"FACTOR", "7"}};
  options.annotations = R"json({"again": {"y": "Out(FACTOR)"}})json";
  load_text("other", kernel("again", "T(FACTOR) * x[i]"), options);
  const auto y = find("elsewhere::again").call(at::ones({7}), at::ones({}));
  BOOST_TEST((y.sizes() == at::IntArrayRef{7}));
  BOOST_TEST(y[6].item<float>() == 7);
}

BOOST_AUTO_TEST_CASE(each_mistake_has_its_type_of_error) {
  BOOST_TEST(contains(error_of<CompileError>([] { load_text("broken", kernel("broken", "nothing")); }),
                      "undefined identifier 'nothing'"));
  BOOST_TEST(
      contains(error_of<c10::Error>([] { load("/nowhere/kernel.slang"); }), "no such file: /nowhere/kernel.slang"));
  load_text("fine", kernel("fine", "x[i]"));
  BOOST_TEST(contains(error_of<c10::Error>([] { find("slang::fine").call(at::ones({2}), at::ones({2})); }),
                      "slang::fine: expected s (T) to be a 0-dimensional tensor, but got shape [2]"));
  const auto launch = c10::Dispatcher::singleton().findSchemaOrThrow("slang::fine_launch", "");
  BOOST_TEST(contains(error_of<LaunchError>([&] {
                        std::vector<c10::IValue> stack{
                            at::ones({2}),           at::ones({}),  at::ones({2}), c10::List<int64_t>({4096}),
                            c10::List<int64_t>({1}), c10::IValue(), c10::IValue()};  // no gradients
                        launch.callBoxed(&stack);
                      }),
                      "cannot launch a grid [1, 1, 1] of blocks [4096, 1, 1]"));
  BOOST_TEST(find("slang::fine").call(at::ones({2}), at::ones({}))[1].item<float>() == 1);
}

BOOST_AUTO_TEST_CASE(expressions_on_symbolic_and_real_integers_agree) {
  const NameLookup lookup = [](const std::string& name) { return Expression::of_symbol(name == "A" ? 0 : 1); };
  for (const char* text : {"A + B", "A - 2 * B", "A / B", "A % B", "cdiv(A, B)", "min(A, B)", "max(-A, B)"}) {
    const Expression expression = parse_expression(text, "here", lookup);
    for (const int64_t a : {-7, -1, 0, 5, 8}) {
      for (const int64_t b : {-3, -1, 2, 4}) {
        const int64_t real = evaluate<int64_t>(expression, {a, b});
        const c10::SymInt symbols[] = {a, b};
        BOOST_TEST(evaluate<c10::SymInt>(expression, symbols).guard_int(__FILE__, __LINE__) == real,
                   text << " of " << a << ", " << b);
      }
    }
  }
  const Expression division = parse_expression("A / B", "here", lookup);
  BOOST_TEST(contains(error_of<c10::Error>([&] { evaluate<int64_t>(division, {1, 0}); }),
                      "here: in \"A / B\": division by zero"));
  const int64_t least = std::numeric_limits<int64_t>::min();
  BOOST_TEST(
      contains(error_of<c10::Error>([&] { evaluate<int64_t>(division, {least, -1}); }), "does not fit in 64 bits"));
}

BOOST_AUTO_TEST_SUITE_END()
