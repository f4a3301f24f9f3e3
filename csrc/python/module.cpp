// The Python module torch_slang._C: thin bindings over op/module.h and cache/cache.h. torch_slang/*.py make them pleasant.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "cache/cache.h"
#include "common/error.h"
#include "op/module.h"
#include "op/registry.h"
#include "program/compiler_client.h"
#include "python/descriptors.h"

namespace py = pybind11;

namespace torch_slang {

namespace {

// `with Pin(module, "cube"):` calls of that operator run this module's own.
class Pin {
 public:
  Pin(const Module& module, const std::string& name) : op_(module.find(name)), family_(find_family(module.ns(), name)) {
    TORCH_CHECK(family_ != nullptr && family_->has_schemas_of(*op_), module.ns(), "::", name,
                " was reloaded with other arguments: use the module that the reload returned");
  }
  void enter() { pin_.emplace(*family_, *op_); }
  void exit(const py::args&) { pin_.reset(); }

 private:
  std::shared_ptr<const Operator> op_;
  const RegisteredFamily* family_;
  std::optional<PinnedOperator> pin_;
};

LoadOptions options_of(std::optional<std::string> path, std::optional<std::string> source, std::optional<std::string> name,
                       std::string ns, std::vector<std::pair<std::string, std::string>> defines,
                       std::vector<std::string> include_dirs, std::string annotations, bool fast_math,
                       std::optional<bool> debug) {
  LoadOptions options;
  options.path = path.value_or("");
  options.source = std::move(source);
  options.name = name.value_or("");
  options.ns = std::move(ns);
  options.defines = std::move(defines);
  options.include_dirs = std::move(include_dirs);
  options.annotations = std::move(annotations);
  options.fast_math = fast_math;
  options.debug = debug;
  return options;
}

py::dict stats_dict() {
  const cache::Stats stats = cache::stats();
  py::dict result;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["writes"] = stats.writes;
  result["damaged"] = stats.damaged;
  result["slang_runs"] = stats.slang_runs;
  result["host_runs"] = stats.host_runs;
  result["nvrtc_runs"] = stats.nvrtc_runs;
  return result;
}

// Errors of ours keep their names in Python; the C++ backtrace is for logs, not for users.
void register_errors(py::module_& m) {
  static PyObject* compile_error = nullptr;
  static PyObject* launch_error = nullptr;
  compile_error = py::exception<CompileError>(m, "CompileError", PyExc_RuntimeError).release().ptr();
  launch_error = py::exception<LaunchError>(m, "LaunchError", PyExc_RuntimeError).release().ptr();
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const CompileError& e) {
      PyErr_SetString(compile_error, e.what_without_backtrace());
    } catch (const LaunchError& e) {
      PyErr_SetString(launch_error, e.what_without_backtrace());
    }
  });
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const c10::Error& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
    }
  });
}

void bind_module(py::module_& m) {
  py::class_<Module, std::shared_ptr<Module>>(m, "Module")
      .def_property_readonly("identity", &Module::identity)
      .def_property_readonly("namespace", &Module::ns)
      .def("operators",
           [](const Module& self) {
             std::vector<std::string> names;
             for (const auto& [name, op] : self.operators()) names.push_back(name);
             return names;
           })
      .def("check", [](const Module& self, const std::string& name) { self.find(name); }, py::arg("name"))
      .def("describe", [](const Module& self, const std::string& name) { return describe(*self.find(name)); }, py::arg("name"));
  py::class_<Pin>(m, "Pin")
      .def(py::init<const Module&, const std::string&>(), py::arg("module"), py::arg("name"))
      .def("__enter__", &Pin::enter)
      .def("__exit__", &Pin::exit);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  register_errors(m);
  bind_module(m);
  m.def("set_compiler_path", &set_compiler_path, py::arg("path"));
  m.def("load_builtin", &load_builtin, py::arg("folder"), py::call_guard<py::gil_scoped_release>());
  m.def(
      "load",
      [](std::optional<std::string> path, std::optional<std::string> source, std::optional<std::string> name, std::string ns,
         std::vector<std::pair<std::string, std::string>> defines, std::vector<std::string> include_dirs,
         std::string annotations, bool fast_math, std::optional<bool> debug) {
        const LoadOptions options = options_of(std::move(path), std::move(source), std::move(name), std::move(ns),
                                               std::move(defines), std::move(include_dirs), std::move(annotations), fast_math, debug);
        LoadResult result;
        {
          const py::gil_scoped_release release;
          result = load_module(options);
        }
        return py::make_tuple(std::const_pointer_cast<Module>(result.module), result.changed, result.is_new);
      },
      py::arg("path"), py::arg("source"), py::arg("name"), py::arg("namespace"), py::arg("defines"), py::arg("include_dirs"),
      py::arg("annotations"), py::arg("fast_math"), py::arg("debug"));
  m.def("cache_path", &cache::path);
  m.def("cache_clear", &cache::clear);
  m.def("cache_stats", &stats_dict);
}

}  // namespace torch_slang
