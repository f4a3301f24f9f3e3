#include "module/host_function.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <limits>

#include "backend/cpu/host_library.h"
#include "common/interrupts.h"
#include "module/host_call.h"
#include "operators/arguments.h"
#include "operators/view_packing.h"
#include "torch_slang/error.h"

namespace torch_slang {
namespace {

c10::Device default_device() {
  // Not the guard's count: without a GPU, fake tensors put a guard there that counts one.
  if (!at::hasCUDA()) return c10::kCPU;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
}

size_t host_components(const std::vector<Leaf>& leaves) {
  size_t count = 0;
  for (const Leaf& leaf : leaves) count += host_components(leaf);
  return count;
}

// Checks the arguments and turns them into components, which borrow their tensors.
class ArgumentReader {
 public:
  explicit ArgumentReader(std::string name) : name_(std::move(name)) {}

  std::vector<TslComponent> read(const std::vector<Leaf>& leaves, const std::vector<c10::IValue>& values) {
    TORCH_CHECK(values.size() == host_components(leaves), name_, ": expected ", host_components(leaves),
                " components, but got ", values.size());
    std::vector<TslComponent> components;
    auto value = values.begin();
    for (const Leaf& leaf : leaves) {
      for (int64_t i = host_components(leaf); i > 0; --i, ++value) {
        components.push_back(leaf.is_view() ? tensor(leaf, *value) : number(leaf, *value));
      }
    }
    return components;
  }

  std::optional<c10::Device> device() const {
    return first_ == nullptr ? std::nullopt : std::optional(first_->device());
  }

 private:
  TslComponent tensor(const Leaf& leaf, const c10::IValue& value) {
    TORCH_CHECK(value.isTensor() && value.toTensor().defined(), name_, ": expected ", leaf.path, " (", leaf.slang_type,
                ") to be a tensor, but got ", value.tagKind());
    const at::Tensor& tensor = value.toTensor();
    check_type(leaf, tensor);
    check_device(leaf, tensor);
    TslComponent component;
    component.kind = kTslTensor;
    component.tensor = tensor.unsafeGetTensorImpl();
    return component;
  }

  void check_type(const Leaf& leaf, const at::Tensor& tensor) const {
    if (tensor.scalar_type() != scalar_type(leaf.element.type)) {
      throw_wrong_dtype(name_, {leaf.path, leaf.element.type, " (" + leaf.slang_type + ")"}, tensor.scalar_type());
    }
    TORCH_CHECK(tensor.layout() == c10::kStrided, name_, ": expected ", leaf.path, " to be a strided tensor, but got ",
                tensor.layout());
    if (leaf.element.shape.empty()) return;
    TORCH_CHECK(tensor.dim() > 0 && tensor.size(-1) == leaf.element.shape[0], name_,
                ": expected the last dimension of ", leaf.path, " (", leaf.slang_type, ") to have size ",
                leaf.element.shape[0], ", but got shape ", tensor.sizes());
  }

  void check_device(const Leaf& leaf, const at::Tensor& tensor) {
    if (first_ == nullptr) {
      first_ = &tensor;
      first_path_ = leaf.path;
    }
    TORCH_CHECK(tensor.device() == first_->device(), name_, ": expected all tensors to be on the same device, but ",
                first_path_, " is on ", first_->device(), " and ", leaf.path, " is on ", tensor.device());
  }

  TslComponent number(const Leaf& leaf, const c10::IValue& value) const {
    const bool real = is_floating_point(leaf.element.type);
    TORCH_CHECK(value.isInt() || value.isBool() || (real && value.isDouble()), name_, ": expected ", leaf.path, " (",
                leaf.slang_type, ") to be ", real ? "a number" : "an integer", ", but got ", value.tagKind());
    TslComponent component;
    if (real) {
      component.kind = kTslReal;
      component.real = value.isDouble() ? value.toDouble() : static_cast<double>(value.toScalar().toLong());
    } else {
      component.kind = kTslInteger;
      component.integer = value.toScalar().toLong();
      check_range(leaf, component.integer);
    }
    return component;
  }

  void check_range(const Leaf& leaf, int64_t number) const {
    const ElementType type = leaf.element.type;
    if (type == ElementType::Int64 || type == ElementType::UInt64 || type == ElementType::Bool) return;
    const bool is_unsigned = type == ElementType::UInt8 || type == ElementType::UInt16 || type == ElementType::UInt32;
    const int64_t values = int64_t{1} << (8 * size_of(type));
    const int64_t least = is_unsigned ? 0 : -values / 2;
    TORCH_CHECK(number >= least && number < least + values, name_, ": expected ", leaf.path, " (", leaf.slang_type,
                ") to be between ", least, " and ", least + values - 1, ", but got ", number);
  }

  std::string name_;
  const at::Tensor* first_ = nullptr;
  std::string first_path_;
};

// Takes over the results' tensors, all of them even where one is missing.
std::vector<c10::IValue> read_results(const std::string& name, const std::vector<Leaf>& leaves,
                                      const std::vector<TslComponent>& components) {
  std::vector<c10::IValue> values;
  const Leaf* missing = nullptr;
  auto component = components.begin();
  for (const Leaf& leaf : leaves) {
    for (int64_t i = host_components(leaf); i > 0; --i, ++component) {
      if (component->kind != kTslTensor) {
        values.push_back(leaf.element.type == ElementType::Bool ? c10::IValue(component->integer != 0)
                         : component->kind == kTslReal ? c10::IValue(component->real)
                                                       : c10::IValue(static_cast<int64_t>(component->integer)));
      } else if (component->tensor != nullptr) {
        values.emplace_back(take_tensor(component->tensor));
      } else {
        missing = &leaf;
      }
    }
  }
  if (missing != nullptr) {
    TORCH_CHECK(false, name, ": its result", missing->path.empty() ? "" : "'s " + missing->path.substr(1),
                " was never given a value");
  }
  return values;
}

std::string last_name(const std::string& qualified) { return qualified.substr(qualified.rfind('.') + 1); }

// "scale_0", as Slang writes an instance of the generic kernel `scale`, without the number.
std::string without_number(const std::string& emitted) {
  const size_t digits = emitted.find_last_not_of("0123456789");
  if (digits == std::string::npos || digits + 1 == emitted.size() || emitted[digits] != '_') return "";
  return emitted.substr(0, digits);
}

}  // namespace

HostFunctions::HostFunctions(std::string ns, std::shared_ptr<const Program> program, const Operators& operators,
                             KernelOptions options)
    : ns_(std::move(ns)), program_(std::move(program)), operators_(operators), options_(options) {}

std::vector<std::string> HostFunctions::names() const {
  std::vector<std::string> names;
  for (const HostFunction& one : program_->host_functions) names.push_back(one.function.name);
  return names;
}

const HostFunction& HostFunctions::find(const std::string& name) const {
  for (const HostFunction& one : program_->host_functions) {
    if (one.function.name == name) return one;
  }
  std::string known;
  for (const std::string& other : names()) known += (known.empty() ? "" : ", ") + other;
  TORCH_CHECK(false, "no host function named '", name, "'; this module has: ", known.empty() ? "none" : known);
}

const Operator& HostFunctions::kernel(const std::string& emitted, const std::string& caller) const {
  const Operator* found = nullptr;
  for (const auto& [name, op] : operators_) {
    const Function& function = op->signature().function;
    const bool generic = !function.type_parameters.empty();
    if (last_name(function.qualified_name) != (generic ? without_number(emitted) : emitted)) continue;
    TORCH_CHECK(found == nullptr, caller, ": dispatches ", emitted,
                ", but its module has several kernels of that name; ", "rename the others");
    found = op.get();
  }
  if (found != nullptr) return *found;
  for (const Function& function : program_->functions) {
    TORCH_CHECK(!function.is_kernel() || function.refusal.empty() || last_name(function.qualified_name) != emitted,
                caller, ": dispatches ", function.name, ", which is not available: ", function.refusal);
  }
  TORCH_CHECK(false, caller, ": dispatches ", emitted,
              ", which is no kernel of its own file; put it there, or write a kernel ",
              "with [Out] parameters and call it from Python");
}

TslHostEntry* HostFunctions::entry(const HostFunction& function) const {
  const std::string op = ns_ + "::" + function.function.name;
  const auto library = library_.get({}, [&] {
    if (!program_->host_text.error.empty()) throw_compile_error(op, ": ", program_->host_text.error);
    return std::make_shared<const DynamicLibrary>(
        load_host_library(program_->host_text, op, function.function.file, options_.polls(c10::kCPU)));
  });
  return library->function<TslHostEntry>(("tsl_host_" + function.function.name).c_str());
}

std::vector<c10::IValue> HostFunctions::call(const std::string& name, const std::vector<c10::IValue>& arguments,
                                             std::optional<c10::Device> device) const {
  const HostFunction& host = find(name);
  TORCH_CHECK(host.function.refusal.empty(), ns_, "::", name, " (", host.function.file, ":", host.function.line,
              ") cannot be called: ", host.function.refusal);
  ArgumentReader reader(ns_ + "::" + name);
  const std::vector<TslComponent> components = reader.read(host.function.leaves, arguments);
  if (reader.device()) device = reader.device();
  const std::string caller = ns_ + "::" + name;
  HostCall call{[&](const std::string& emitted) -> const Operator& { return kernel(emitted, caller); }, caller,
                device ? *device : default_device(), nullptr, options_};
  std::vector<TslComponent> results(host_components(host.result_leaves));
  TslHostEntry* const entry_point = entry(host);

  const at::NoGradGuard no_grad;
  const c10::DeviceGuard guard(call.device);
  if (options_.polls(c10::kCPU)) {
    call.watch.emplace(&call.stop, options_.limit());
    check_interrupts();  // Ctrl-C may have come before, while the text was compiled
  }
  const int status = entry_point(&host_table(), &call, components.data(), results.data());
  if (call.error) std::rethrow_exception(call.error);
  TORCH_CHECK(status == 0, call.name, ": ended with an exception that is none of ours");
  return read_results(call.name, host.result_leaves, results);
}

}  // namespace torch_slang
