#include "operators/sampled_operator.h"

#include <algorithm>
#include <utility>

#include "operators/argument_list.h"

namespace torch_slang {
namespace {

// The op in namespace `ns` with one argument more.
std::unique_ptr<const OpSignature> with_samples(const Signature& signature, OpKind kind, const std::string& ns) {
  const OpSignature& plain = *signature.of(kind);
  const c10::FunctionSchema& schema = *plain.schema;
  std::vector<c10::Argument> arguments = schema.arguments();
  std::string name = "sample_dims";
  const auto is_named_so = [&](const c10::Argument& argument) { return argument.name() == name; };
  while (std::any_of(arguments.begin(), arguments.end(), is_named_so)) name = "vmap_" + name;
  arguments.emplace_back(name, c10::IntType::get(), std::nullopt, std::nullopt, /*kwarg_only=*/true);
  auto op = std::make_unique<OpSignature>();
  op->name = plain.name;
  op->arguments = plain.arguments;
  op->arguments.push_back({OpArgument::Role::SampleDims, -1});
  op->results = plain.results;
  op->schema =
      std::make_unique<c10::FunctionSchema>(ns + "::" + plain.name, "", std::move(arguments), schema.returns());
  op->packed = packed_arguments(*op, signature.function, signature.qualified(kind));
  return op;
}

}  // namespace

SampledOperator::OfSamples::OfSamples(const Signature& plain)
    : Signature(plain.ns + "_vmap", plain.function, plain.texts, plain.options) {
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (plain.of(kind) == nullptr) continue;
    add(kind, with_samples(plain, kind, ns));
    qualified_names[i] = plain.qualified(kind);
  }
}

SampledOperator::SampledOperator(std::shared_ptr<const Operator> plain)
    : plain_(std::move(plain)), signature_(plain_->signature()) {
  if (plain_->jvp != nullptr) jvp = std::make_shared<SampledOperator>(plain_->jvp);
}

void audit_after(const Operator& op, OpKind kind, Operator::Stack arguments) {
  const bool is_derivative = kind == OpKind::Backward || !op.signature().function.tangents_of.empty();
  if (!is_derivative || is_launch(kind)) return;
  if (op.audits != nullptr) return op.audits->after(op, kind, arguments, /*keeps_samples=*/false);
  const auto* sampled = dynamic_cast<const SampledOperator*>(&op);  // it has the plain operator's
  if (sampled == nullptr || sampled->plain().audits == nullptr) return;
  sampled->plain().audits->after(sampled->plain(), kind, arguments, /*keeps_samples=*/true);
}

}  // namespace torch_slang
