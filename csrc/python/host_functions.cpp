#include "python/host_functions.h"

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include "program/enumerations.h"

namespace py = pybind11;

namespace torch_slang {

namespace {

// A parameter or result with what its leaf says, or its fields.
py::dict describe_tree(const Parameter& parameter, const std::vector<Leaf>& leaves) {
  py::dict result;
  result["name"] = parameter.name;
  result["type"] = parameter.slang_type;
  py::list fields;
  for (const Parameter& field : parameter.fields) fields.append(describe_tree(field, leaves));
  result["fields"] = fields;
  if (parameter.leaf < 0) {
    result["kind"] = "struct";
    return result;
  }
  const Leaf& leaf = leaves[parameter.leaf];
  result["kind"] = leaf.is_view() ? "tensor" : "value";
  result["path"] = leaf.path;
  result["dtype"] = name_of(leaf.element.type);
  result["shape"] = py::tuple(py::cast(leaf.element.shape));
  return result;
}

py::dict describe_host_function(const Module& module, const std::string& name) {
  const HostFunction& host = module.host_functions().find(name);
  py::dict result;
  result["name"] = module.ns() + "::" + name;
  result["refusal"] = host.function.refusal;
  result["file"] = host.function.file;
  result["line"] = host.function.line;
  py::list parameters;
  for (const Parameter& parameter : host.function.parameters) {
    parameters.append(describe_tree(parameter, host.function.leaves));
  }
  result["parameters"] = parameters;
  const bool is_void = host.result.leaf < 0 && host.result.fields.empty();
  result["result"] = is_void ? py::object(py::none()) : py::object(describe_tree(host.result, host.result_leaves));
  return result;
}

// Components are tensors, bool, int and float: torch_slang/kernels/host_function.py has made them so.
c10::IValue component_of(py::handle value) {
  if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr());
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyLong_Check(value.ptr())) return value.cast<int64_t>();
  return value.cast<double>();
}

py::object object_of(const c10::IValue& value) {
  if (value.isTensor()) return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isInt()) return py::int_(value.toInt());
  return py::float_(value.toDouble());
}

py::list call_host_function(const Module& module, const std::string& name, const py::list& arguments,
                            const std::optional<std::string>& device) {
  std::vector<c10::IValue> components;
  for (const py::handle argument : arguments) components.push_back(component_of(argument));
  std::vector<c10::IValue> results;
  {
    const py::gil_scoped_release release;
    results =
        module.host_functions().call(name, components, device ? std::optional(c10::Device(*device)) : std::nullopt);
  }
  py::list objects;
  for (const c10::IValue& result : results) objects.append(object_of(result));
  return objects;
}

}  // namespace

void bind_host_functions(py::class_<Module, std::shared_ptr<Module>>& module) {
  module.def("host_functions", [](const Module& self) { return self.host_functions().names(); })
      .def("describe_host_function", &describe_host_function, py::arg("name"))
      .def("call_host_function", &call_host_function, py::arg("name"), py::arg("arguments"),
           py::arg("device") = py::none());
}

}  // namespace torch_slang
