#include <c10/util/StringUtil.h>

#include <map>
#include <memory>
#include <mutex>

#include "dispatch/registry.h"
#include "epilogue.h"
#include "matmul_shapes.h"
#include "module/module.h"
#include "operators/arguments.h"
#include "operators/view_packing.h"
#include "program/enumerations.h"

namespace torch_slang::product {

namespace {

std::string names_of(const Signature& function) {
  std::string names;
  for (size_t i = 1; i < function.function.leaves.size(); ++i) {
    const Leaf& leaf = function.function.leaves[i];
    if (!leaf.is_output) names += (names.empty() ? "" : ", ") + leaf.name;
  }
  return names;
}

// Tensors with a gradient are like the operands. Constants may also have the type that the function has for them.
void check_argument(const Epilogue& epilogue, const Leaf& leaf, const Tensor& tensor, const Tensor& first) {
  const char* op = epilogue.where.c_str();
  const auto declared = scalar_type(leaf.element.type);
  const bool is_number = c10::isFloatingType(declared);
  const char* operand = epilogue.names.first;
  if (leaf.differentiable) return check_like(op, leaf.name.c_str(), tensor, operand, first);
  check_dense(op, leaf.name.c_str(), tensor);
  TORCH_CHECK(tensor.device() == first.device(), op, ": expected all tensors to be on the same device, but ", operand,
              " is on ", first.device(), " and ", leaf.name, " is on ", tensor.device());
  const auto given = tensor.scalar_type();
  TORCH_CHECK(given == declared || (is_number && given == first.scalar_type()), op, ": expected ", leaf.name,
              " to have dtype ", dtype_text(declared),
              is_number && declared != first.scalar_type()
                  ? c10::str(", or ", dtype_text(first.scalar_type()), " like ", operand)
                  : "",
              ", but got ", dtype_text(given));
}

}  // namespace

const RegisteredFamily& Epilogue::function(c10::ScalarType type) const {
  const auto is_current = [&](const RegisteredFamily* family) {  // not left over from before a reload
    return family != nullptr && family->current()->signature().texts == product.halves->current()->signature().texts;
  };
  if (type != c10::kDouble && is_current(in_float)) return *in_float;
  TORCH_CHECK(
      is_current(in_double), where, ": expected ", names.first,
      " to have dtype float16, bfloat16 or float32, since the epilogue computes in float and would narrow it, but got ",
      dtype_text(type));
  return *in_double;
}

PinnedEpilogue::PinnedEpilogue(const Epilogue& epilogue) {
  const ProductKernels &product = epilogue.product, &both = epilogue.product_and_sum;
  const std::array<const RegisteredFamily*, kFamilies> families{product.halves,    product.wide,      product.tf32,
                                                                both.halves,       both.wide,         both.tf32,
                                                                epilogue.in_float, epilogue.in_double};
  operators_ = current_together(families);
  for (size_t i = 0; i < kFamilies; ++i) {
    if (operators_[i] != nullptr) pins_[i].emplace(*families[i], *operators_[i]);
  }
}

const Epilogue& epilogue_named(const ProductNames& product, c10::string_view name) {
  using Known = std::map<std::string, std::unique_ptr<const Epilogue>, std::less<>>;
  static auto* all = new std::map<const ProductNames*, Known>;  // never destroyed
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string_view key(name.data(), name.size());
  Known& known = (*all)[&product];
  const auto found = known.find(key);
  if (found != known.end()) return *found->second;
  const size_t colons = key.find("::");
  const std::string ns(colons == std::string_view::npos ? "slang" : key.substr(0, colons));
  const std::string function(colons == std::string_view::npos ? key : key.substr(colons + 2));
  const std::string made = function + product.suffix, kernels = made + product.ending;
  if (ns == "slang" && is_name(function) && find_family(ns, kernels) == nullptr)
    load_builtin_module("epilogues/" + made);
  auto epilogue = std::make_unique<const Epilogue>(
      Epilogue{product, c10::str(product.op, "(", function, ")"), ProductKernels(ns, kernels),
               ProductKernels(ns, kernels + "_and_sum"), find_family(ns, made + "_in_float"),
               find_family(ns, made + "_in_double")});
  TORCH_CHECK(epilogue->product.are_there() && epilogue->product_and_sum.are_there(), product.op,
              ": no epilogue is named '", key, "'; ", product.maker,
              "(source) makes one, of the name that it has as op.name");
  return *known.emplace(std::string(key), std::move(epilogue)).first->second;
}

void check_epilogue_arguments(const Epilogue& epilogue, const Tensor& first, at::TensorList arguments,
                              c10::SymIntArrayRef result) {
  const auto function = epilogue.function(first.scalar_type()).current();
  const Signature& signature = function->signature();
  const auto& leaves = signature.function.leaves;
  const size_t count = signature.function.parameters.size() - 1;
  TORCH_CHECK(arguments.size() == count, epilogue.where, ": expected ", count, " argument", count == 1 ? "" : "s",
              count == 0 ? "" : " (" + names_of(signature) + ")", " behind ", epilogue.names.first, " and ",
              epilogue.names.second, ", but got ", arguments.size());
  for (size_t i = 0; i < count; ++i) {
    const Leaf& leaf = leaves[i + 1];
    check_argument(epilogue, leaf, arguments[i], first);
    check_broadcasts(epilogue.where.c_str(), leaf.name.c_str(), arguments[i], result);
  }
}

void check_mm_with_epilogue(const Epilogue& epilogue, const Tensor& a, const Tensor& b, at::TensorList arguments) {
  check_batches(epilogue.where.c_str(), a, b);
  check_epilogue_arguments(epilogue, a, arguments, product_sizes(a, b));
  for (const Tensor& argument : arguments) {
    TORCH_CHECK(argument.dim() == 3, epilogue.where, ": expected the arguments of slang::mm_with_epilogue to have 3 ",
                "dimensions, but got shape ", argument.sym_sizes());
  }
}

}  // namespace torch_slang::product
