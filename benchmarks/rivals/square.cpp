// What an expert writes by hand: a typed operator with a torch::autograd::Function. The rival of benchmarks/host_cost.py.
#include <torch/extension.h>

namespace {

class Square : public torch::autograd::Function<Square> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({x});
    return at::mul(x, x);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, torch::autograd::tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0] * 2};
  }
};

at::Tensor square(const at::Tensor& x) { return Square::apply(x); }

}  // namespace

TORCH_LIBRARY(torch_slang_rival, m) { m.def("square(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(torch_slang_rival, CompositeImplicitAutograd, m) { m.impl("square", square); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}
