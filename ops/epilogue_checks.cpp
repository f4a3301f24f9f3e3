#include <c10/util/StringUtil.h>

#include <map>
#include <memory>
#include <mutex>

#include "epilogue.h"
#include "op/arguments.h"
#include "op/module.h"
#include "op/view_packing.h"
#include "program/names.h"

namespace torch_slang::product {

namespace {

std::string names_of(const Operator& function) {
  std::string names;
  for (size_t i = 1; i < function.function.leaves.size(); ++i) {
    const Leaf& leaf = function.function.leaves[i];
    if (!leaf.is_output) names += (names.empty() ? "" : ", ") + leaf.name;
  }
  return names;
}

// Tensors with a gradient are like the operands. Constants may also have the type that the function has for them.
void check_argument(const Epilogue& epilogue, const Leaf& leaf, const Tensor& tensor, const Tensor& a) {
  const char* op = epilogue.where.c_str();
  const auto declared = scalar_type(leaf.element.type);
  const bool is_number = c10::isFloatingType(declared);
  if (leaf.differentiable) return check_like(op, leaf.name.c_str(), tensor, "a", a);
  check_dense(op, leaf.name.c_str(), tensor);
  TORCH_CHECK(tensor.device() == a.device(), op, ": expected all tensors to be on the same device, but a is on ",
              a.device(), " and ", leaf.name, " is on ", tensor.device());
  const auto given = tensor.scalar_type();
  TORCH_CHECK(given == declared || (is_number && given == a.scalar_type()), op, ": expected ", leaf.name,
              " to have dtype ", dtype_text(declared),
              is_number && declared != a.scalar_type() ? ", or " + dtype_text(a.scalar_type()) + " like a" : "",
              ", but got ", dtype_text(given));
}

}  // namespace

const RegisteredFamily& Epilogue::function(c10::ScalarType type) const {
  const auto is_current = [&](const RegisteredFamily* family) {  // not left over from before a reload
    return family != nullptr && family->current()->texts == product.halves->current()->texts;
  };
  if (type != c10::kDouble && is_current(in_float)) return *in_float;
  TORCH_CHECK(is_current(in_double), where, ": expected a to have dtype float16, bfloat16 or float32, since the ",
              "epilogue computes in float and would narrow it, but got ", dtype_text(type));
  return *in_double;
}

const Epilogue& epilogue_named(c10::string_view name) {
  static auto* known = new std::map<std::string, std::unique_ptr<const Epilogue>, std::less<>>;  // never destroyed
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string_view key(name.data(), name.size());
  const auto found = known->find(key);
  if (found != known->end()) return *found->second;
  const size_t colons = key.find("::");
  const std::string ns(colons == std::string_view::npos ? "slang" : key.substr(0, colons));
  const std::string function(colons == std::string_view::npos ? key : key.substr(colons + 2));
  if (ns == "slang" && is_name(function) && find_family(ns, function + "_product") == nullptr)
    load_builtin_module("epilogues/" + function);
  auto epilogue = std::make_unique<const Epilogue>(
      Epilogue{c10::str("slang::matmul_with_epilogue(", function, ")"), ProductKernels(ns, function + "_product"),
               ProductKernels(ns, function + "_product_and_sum"), find_family(ns, function + "_in_float"),
               find_family(ns, function + "_in_double")});
  TORCH_CHECK(epilogue->product.are_there() && epilogue->product_and_sum.are_there(),
              "slang::matmul_with_epilogue: no epilogue is named '", key,
              "'; torch_slang.matmul_with_epilogue(source) makes one, of the name that it has as op.name");
  return *known->emplace(std::string(key), std::move(epilogue)).first->second;
}

void check_epilogue_arguments(const Epilogue& epilogue, const Operator& function, const Tensor& a,
                              at::TensorList arguments, c10::SymIntArrayRef result) {
  const auto& leaves = function.function.leaves;
  const size_t count = function.function.parameters.size() - 1;
  TORCH_CHECK(arguments.size() == count, epilogue.where, ": expected ", count, " argument", count == 1 ? "" : "s",
              count == 0 ? "" : " (" + names_of(function) + ")", " behind a and b, but got ", arguments.size());
  for (size_t i = 0; i < count; ++i) {
    const Leaf& leaf = leaves[i + 1];
    check_argument(epilogue, leaf, arguments[i], a);
    check_broadcasts(epilogue.where.c_str(), leaf.name.c_str(), arguments[i], result);
  }
}

}  // namespace torch_slang::product
