#include "dispatch/registry.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <set>

#include "dispatch/batched_gradients.h"
#include "dispatch/dual_call.h"
#include "dispatch/vmap.h"
#include "gradients/autograd.h"
#include "operators/dispatched_call.h"
#include "operators/sampled_operator.h"

namespace torch_slang {

namespace {

using torch::jit::Stack;

// On CPU or CUDA tensors.
Results run_real(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments) {
  CallContext context;
  context.is_recorded = is_call_recorded();
  Results results = op.run(kind, arguments, context);
  audit_after(op, kind, arguments);
  return results;
}

Results run_meta(const Operator& op, OpKind kind, c10::ArrayRef<c10::IValue> arguments) {
  return op.run_meta(kind, arguments);
}

// Below autograd.
template <Results (*Run)(const Operator&, OpKind, c10::ArrayRef<c10::IValue>)>
class BoxedKernel final : public c10::OperatorKernel {
 public:
  BoxedKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const auto op = family_.current();
    const auto arguments = arguments_of_call(*op, kind_, *stack);
    Results results = Run(*op, kind_, arguments);
    torch::jit::drop(*stack, arguments.size());
    for (auto& result : results) stack->emplace_back(std::move(result));
  }

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

// Sparse, quantized and nested tensors, and devices that there is no backend for.
class UnsupportedKernel final : public c10::OperatorKernel {
 public:
  UnsupportedKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const auto op = family_.current();
    const auto arguments = arguments_of_call(*op, kind_, *stack);
    bool takes_tensors = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
      takes_tensors = true;
      const at::Tensor& tensor = arguments[i].toTensor();
      const bool is_plain = tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized();
      if (is_plain && (tensor.is_cpu() || tensor.is_cuda())) continue;
      TORCH_CHECK(false, op->signature().qualified(kind_), ": expected ",
                  op->signature().of(kind_)->schema->arguments()[i].name(),
                  " to be a dense tensor on the CPU or a CUDA device, but got ",
                  tensor.is_nested()      ? "a nested tensor"
                  : tensor.is_quantized() ? "a quantized tensor"
                  : !is_plain             ? c10::str("the layout ", tensor.layout())
                                          : c10::str("one on ", tensor.device()));
    }
    TORCH_CHECK(takes_tensors, op->signature().qualified(kind_),
                ": no argument is a tensor, so nothing says which device to run on: call ", op->signature().full_name(),
                "_launch with the outputs");
    TORCH_INTERNAL_ASSERT(false, op->signature().qualified(kind_), " has tensors that a backend takes");
  }

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

// Of ops that mutate: PyTorch's own fallback for negated views expects mutated arguments among the results, and ends the process else.
class NegativeKernel final : public c10::OperatorKernel {
 public:
  NegativeKernel(const RegisteredFamily& family, OpKind kind) : family_(family), kind_(kind) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
    const auto op = family_.current();
    const size_t count = arguments_of_call(*op, kind_, *stack).size();
    for (size_t i = 0; i < count; ++i) {
      c10::IValue& value = torch::jit::peek(*stack, i, count);
      if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_neg()) continue;
      const auto& argument = op->signature().of(kind_)->schema->arguments()[i];
      TORCH_CHECK(argument.alias_info() == nullptr || !argument.alias_info()->isWrite(),
                  op->signature().qualified(kind_), ": expected ", argument.name(),
                  ", which may be written, to be no negated view, but it is one: pass ", "its .resolve_neg()");
      value = value.toTensor().resolve_neg();
    }
    const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Negative);
    redispatch_boxed(handle, keys & below, *op, kind_, *stack);
  }

 private:
  const RegisteredFamily& family_;
  const OpKind kind_;
};

struct Entry {
  RegisteredFamily family;
  std::string owner;  // the identity of the module whose operator is the current one
  // Note [pinned names]: when the last registration of a name goes, the dispatcher frees its OperatorDef and every cached
  // handle (Python's OpOverload, scripted functions) dangles. A fallthrough on a key that nothing uses, never dropped,
  // keeps it alive.
  std::map<std::string, std::unique_ptr<torch::Library>> pins;  // by name
  std::unique_ptr<torch::Library> library;  // the definitions and kernels of the current schemas
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Entry>> entries;  // by qualified name
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: torch may call ops until the process ends
  return *instance;
}

std::unique_ptr<torch::Library> new_library(const std::string& ns) {
  return std::make_unique<torch::Library>(torch::Library::FRAGMENT, ns, std::nullopt, __FILE__, __LINE__);
}

void pin(Entry& entry, const Operator& op) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const auto* signature = op.signature().of(static_cast<OpKind>(kind));
    if (signature == nullptr || entry.pins.count(signature->name) > 0) continue;
    auto library = new_library(op.signature().ns);
    library->impl(signature->name.c_str(),
                  torch::dispatch(c10::DispatchKey::PrivateUse3, torch::CppFunction::makeFallthrough()));
    entry.pins[signature->name] = std::move(library);
  }
}

template <class Kernel>
void implement(torch::Library& library, const std::string& name, c10::DispatchKey key, const RegisteredFamily& family,
               OpKind kind) {
  library.impl(name.c_str(),
               torch::dispatch(key, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(family, kind))));
}

std::unique_ptr<torch::Library> define(const RegisteredFamily& family, const Operator& op) {
  auto library = new_library(op.signature().ns);
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const OpSignature* signature = op.signature().of(kind);
    if (signature == nullptr) continue;
    library->def(c10::FunctionSchema(signature->registered_schema()),
                 {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
    using Real = BoxedKernel<run_real>;
    using Meta = BoxedKernel<run_meta>;
    implement<Real>(*library, signature->name, c10::DispatchKey::CPU, family, kind);
    implement<Real>(*library, signature->name, c10::DispatchKey::CUDA, family, kind);
    implement<Meta>(*library, signature->name, c10::DispatchKey::Meta, family, kind);
    for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd,  // all backends but those of nested tensors
                           c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorCUDA}) {
      implement<UnsupportedKernel>(*library, signature->name, key, family, kind);
    }
    if (op.signature().function.has_values) {
      implement<DualAutogradKernel>(*library, signature->name, c10::DispatchKey::Autograd, family, kind);
      implement<DualVmapKernel>(*library, signature->name, c10::DispatchKey::FuncTorchBatched, family, kind);
      implement<DualBatchedKernel>(*library, signature->name, c10::DispatchKey::Batched, family, kind);
    } else {
      implement<AutogradKernel>(*library, signature->name, c10::DispatchKey::Autograd, family, kind);
      implement<VmapKernel>(*library, signature->name, c10::DispatchKey::FuncTorchBatched, family, kind);
      implement<BatchedGradientsKernel>(*library, signature->name, c10::DispatchKey::Batched, family, kind);
    }
    if (is_launch(kind) || signature->schema->is_mutable()) {
      library->impl(signature->name.c_str(),
                    torch::dispatch(c10::DispatchKey::ADInplaceOrView,
                                    torch::CppFunction::makeFromBoxedFunctor(std::make_unique<VersionKernel>())));
      implement<NegativeKernel>(*library, signature->name, c10::DispatchKey::Negative, family, kind);
    }
  }
  return library;
}

// As the dispatcher knows it; empty if there is no such op.
std::string registered_name(const Operator& op, int kind) {
  const auto* signature = op.signature().of(static_cast<OpKind>(kind));
  return signature == nullptr ? "" : signature->schema->name();
}

// The registered kernel or function that has an operator of this name, or a text for none.
std::string kernel_with(const std::string& name) {
  for (const auto& [owner, entry] : registry().entries) {
    const auto op = entry->family.current();
    for (int kind = 0; op != nullptr && kind < kOpKinds; ++kind) {
      if (registered_name(*op, kind) == name) return owner;
    }
  }
  return "a library";
}

// The names that an operator takes, over those that `before`, its earlier version or null, has already.
void check_names(const Operator& op, const Operator* before, std::set<std::string>& names) {
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const std::string name = registered_name(op, kind);
    if (name.empty()) continue;
    TORCH_CHECK(names.insert(name).second, "torch_slang.load: ", name,
                " would be both a kernel and an operator that goes "
                "with another kernel: rename one");
    if (before != nullptr && registered_name(*before, kind) == name) continue;
    TORCH_CHECK(!c10::Dispatcher::singleton().findSchema({name, ""}), "torch_slang.load: ", name,
                " is registered already, by ", kernel_with(name), ": rename one, or load with another namespace=");
  }
}

// With the operators that others call in front of them: of tangents, and of kernels for calls under vmap.
std::vector<std::shared_ptr<const Operator>> with_derived(const std::vector<std::shared_ptr<Operator>>& operators) {
  std::vector<std::shared_ptr<const Operator>> all;
  const auto add = [&](const std::shared_ptr<const Operator>& op) {
    if (op->jvp != nullptr) all.push_back(op->jvp);
    if (op->dual != nullptr) all.push_back(op->dual);
    all.push_back(op);
  };
  for (const auto& op : operators) {
    if (op->signature().function.is_kernel()) add(std::make_shared<SampledOperator>(op));
    add(op);
  }
  return all;
}

Entry& entry_of(const std::string& full_name) {
  auto& entry = registry().entries[full_name];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  return *entry;
}

// Tells the family of an operator which others go with it.
void link(const std::shared_ptr<const Operator>& op) {
  const Signature& signature = op->signature();
  RegisteredFamily& family = entry_of(signature.full_name()).family;
  family.set_jvp(op->jvp == nullptr ? nullptr : &entry_of(op->jvp->signature().full_name()).family);
  family.set_dual(op->dual == nullptr ? nullptr : &entry_of(op->dual->signature().full_name()).family);
  if (op->dual != nullptr) entry_of(op->dual->signature().full_name()).family.set_plain(&family);
  if (!signature.function.is_kernel()) return;
  const bool is_sampled = dynamic_cast<const SampledOperator*>(op.get()) != nullptr;
  family.set_of_samples(is_sampled ? &family : &entry_of(SampledOperator::full_name_of(signature)).family);
}

void enter(const std::shared_ptr<const Operator>& op, const std::string& owner, Publication& publication) {
  Entry& entry = entry_of(op->signature().full_name());
  const bool is_new = entry.family.current() == nullptr;
  entry.owner = owner;
  if (!is_new && entry.family.has_schemas_of(*op)) {
    entry.family.replace(op);
    return;
  }
  pin(entry, *op);
  entry.library.reset();
  entry.family.replace(op);
  entry.library = define(entry.family, *op);
  if (is_new) return;
  for (int kind = 0; kind < kOpKinds; ++kind) {
    if (std::string name = registered_name(*op, kind); !name.empty()) publication.changed.push_back(std::move(name));
  }
}

}  // namespace

Publication publish(const std::vector<std::shared_ptr<Operator>>& given, const std::string& owner) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::set<std::string> names;
  const auto operators = with_derived(given);
  const auto check = [&](const Operator& op) {
    const auto known = all.entries.find(op.signature().full_name());
    const auto before = known == all.entries.end() ? nullptr : known->second->family.current();
    check_names(op, before.get(), names);
  };
  for (const auto& op : given) check(*op);  // first: messages name what the user wrote
  for (const auto& op : operators) {
    if (std::find(given.begin(), given.end(), op) == given.end()) check(*op);
  }
  Publication publication;
  for (const auto& op : operators) link(op);
  for (const auto& op : operators) enter(op, owner, publication);
  return publication;
}

std::string owner_of(const std::string& full_name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto it = all.entries.find(full_name);
  return it == all.entries.end() ? "" : it->second->owner;
}

std::vector<std::shared_ptr<const Operator>> current_together(c10::ArrayRef<const RegisteredFamily*> families) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  std::vector<std::shared_ptr<const Operator>> operators;
  for (const RegisteredFamily* family : families) operators.push_back(family == nullptr ? nullptr : family->current());
  return operators;
}

RegisteredFamily* find_family(const std::string& ns, const std::string& name) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto it = all.entries.find(ns + "::" + name);
  return it == all.entries.end() ? nullptr : &it->second->family;
}

}  // namespace torch_slang
