#include "python/descriptors.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace torch_slang {

namespace {

py::dict describe_leaf(const Leaf& leaf) {
  py::dict result;
  result["name"] = leaf.name;
  result["path"] = leaf.path;
  result["type"] = leaf.slang_type;
  result["is_view"] = leaf.is_view();
  result["is_output"] = leaf.is_output;
  result["is_whole"] = leaf.is_whole();
  result["is_written"] = leaf.is_written();
  result["differentiable"] = leaf.differentiable;
  result["no_gradient"] = leaf.no_gradient;
  result["has_gradient"] = leaf.has_gradient();
  result["element_shape"] = leaf.element.shape;
  result["type_parameter"] = leaf.element.type_parameter;
  result["dtype"] = name_of(leaf.element.type);
  result["shape"] = leaf.is_view() ? py::cast(leaf.view().shape) : py::object(py::none());
  result["default"] = leaf.default_float ? py::cast(*leaf.default_float)
                      : leaf.default_int ? py::cast(*leaf.default_int)
                                         : py::object(py::none());
  return result;
}

py::dict describe_parameter(const Parameter& parameter) {
  py::dict result;
  result["name"] = parameter.name;
  result["type"] = parameter.slang_type;
  result["leaf"] = parameter.leaf;
  py::list fields;
  for (const auto& field : parameter.fields) fields.append(describe_parameter(field));
  result["fields"] = fields;
  return result;
}

// What the operators of a kernel call the arguments that the kernel does not have: for each kind its gradients (or tangents)
// by leaf, and the launch.
py::dict describe_added(const Signature& op) {
  py::dict result;
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const OpSignature* signature = op.of(kind);
    if (signature == nullptr) continue;
    py::dict gradients;
    py::list extents, names;
    for (size_t k = 0; k < signature->arguments.size(); ++k) {
      const auto [role, leaf] = signature->arguments[k];
      const std::string& name = signature->schema->arguments()[k].name();
      names.append(name);
      if (role == OpArgument::Role::Gradient) gradients[py::str(op.function.leaves[leaf].name)] = name;
      if (role == OpArgument::Role::BlockSize || role == OpArgument::Role::GridSize) extents.append(name);
    }
    py::dict about;
    about["gradients"] = gradients;
    about["extents"] = extents;
    if (signature->packed != nullptr) {
      about["packed"] = signature->packed->lists();
      about["names"] = names;
    }
    result[name_of(kind)] = about;
  }
  return result;
}

}  // namespace

py::dict describe(const Signature& op) {
  py::dict result;
  result["name"] = op.function.name;
  result["qualified_name"] = op.function.qualified_name;
  result["file"] = op.function.file;
  result["line"] = op.function.line;
  py::list leaves;
  for (const auto& leaf : op.function.leaves) leaves.append(describe_leaf(leaf));
  result["leaves"] = leaves;
  py::list parameters;
  for (const auto& parameter : op.function.parameters) parameters.append(describe_parameter(parameter));
  result["parameters"] = parameters;
  py::list results;
  const PlainFunction plain = op.function.is_kernel() ? PlainFunction() : op.function.plain();
  for (const auto& parameter : plain.results) results.append(describe_parameter(parameter));
  result["results"] = results;
  result["order"] = plain.order;
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const auto* signature = op.of(kind);
    const bool writes_outputs = !op.function.is_kernel() && kind == OpKind::Launch;
    result[writes_outputs ? "out" : name_of(kind)] =
        signature != nullptr ? py::cast(signature->name) : py::object(py::none());
  }
  result["added"] = describe_added(op);
  py::list type_parameters;
  for (const auto& parameter : op.function.type_parameters) {
    py::list allowed;
    for (const ElementType type : parameter.allowed) allowed.append(name_of(type));
    type_parameters.append(py::make_tuple(parameter.name, allowed));
  }
  result["type_parameters"] = type_parameters;
  result["size_parameters"] = plain.size_parameters;
  result["has_backward"] = op.function.has_backward;
  result["has_forward_derivative"] = op.function.has_forward_derivative;
  return result;
}

py::list describe_kernels(const Operator& op) {
  std::vector<KernelFacts> kernels;
  {
    const py::gil_scoped_release release;
    kernels = op.explain();
  }
  py::list result;
  for (const KernelFacts& kernel : kernels) {
    py::list gradients;
    for (const GradientFacts& gradient : kernel.gradients) {
      py::list places;
      for (const auto& place : gradient.places) places.append(py::make_tuple(place.file, place.line));
      py::dict about;
      about["argument"] = gradient.argument;
      about["kept"] = gradient.kept;
      about["summed_along"] = gradient.summed_along < 0 ? "" : std::string(1, "xyz"[gradient.summed_along]);
      about["why"] = gradient.why;
      about["places"] = py::tuple(places);
      gradients.append(about);
    }
    py::dict about;
    about["kind"] = kernel.kind;
    about["values"] = kernel.values;
    about["types"] = py::tuple(py::cast(kernel.types));
    about["device"] = kernel.device;
    about["loop"] = kernel.loop;
    about["registers"] = kernel.registers;
    about["block"] = py::tuple(py::cast(kernel.block));
    about["virtual_threads"] = kernel.virtual_threads;
    about["measured"] = kernel.is_measured;
    about["lanes"] = kernel.lanes;
    about["axis"] = std::string(1, "xyz"[kernel.axis]);
    about["has_bounds"] = kernel.has_bounds;
    about["wave_sums"] = kernel.has_wave_sums;
    about["tiled_waves"] = kernel.has_tiled_waves;
    about["meets"] = kernel.meets;
    about["independent"] = kernel.independent;
    about["strided"] = py::tuple(py::cast(kernel.strided));
    about["threads"] = kernel.threads;
    about["bytes"] = kernel.bytes;
    about["gradients"] = gradients;
    result.append(about);
  }
  return result;
}

}  // namespace torch_slang
