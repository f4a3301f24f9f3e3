// The Python module torch_slang._C: thin bindings over module/module.h and cache/cache.h. torch_slang/*.py make them pleasant.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <variant>

#include "audit/audits.h"
#include "cache/cache.h"
#include "cache/trim.h"
#include "common/environment.h"
#include "dispatch/registry.h"
#include "kernels/most_tiles.h"
#include "module/inspect.h"
#include "module/module.h"
#include "module/reserved_names.h"
#include "operators/dispatched_call.h"
#include "program/compiler_client.h"
#include "program/enumerations.h"
#include "python/audit.h"
#include "python/descriptors.h"
#include "python/errors.h"
#include "python/function_call.h"
#include "python/host_functions.h"
#include "python/interrupts.h"
#include "python/launch_call.h"
#include "python/operator_call.h"
#include "python/tensors.h"
#include "python/tuning.h"
#include "specialise/virtual_threads.h"

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

LoadOptions options_of(std::optional<std::string> path, std::optional<std::string> source,
                       std::optional<std::string> name, std::string ns,
                       std::vector<std::pair<std::string, std::string>> defines,
                       std::vector<std::pair<std::string, std::vector<std::string>>> tuned,
                       std::vector<std::string> include_dirs, std::string annotations, bool fast_math,
                       std::optional<bool> debug) {
  LoadOptions options;
  options.path = path.value_or("");
  options.source = std::move(source);
  options.name = name.value_or("");
  options.ns = std::move(ns);
  options.defines = std::move(defines);
  for (auto& [variable, values] : tuned) options.tuned.push_back({std::move(variable), std::move(values)});
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

// `size`: bytes, a text such as "500M", or None for the limit that the environment sets.
int64_t cache_trim(const std::variant<std::monostate, int64_t, std::string>& size) {
  std::optional<int64_t> bytes = cache::size_limit();
  if (const auto* number = std::get_if<int64_t>(&size)) bytes = *number;
  if (const auto* text = std::get_if<std::string>(&size)) {
    bytes = parse_size(*text);
    if (!bytes) {
      throw py::value_error(
          "torch_slang.cache.trim: expected size to be a number of bytes, or a text such as '500M' or "
          "'2G', but got '" +
          *text + "'");
    }
  }
  if (bytes && *bytes < 0) {
    throw py::value_error("torch_slang.cache.trim: expected size to be at least 0, but got " + std::to_string(*bytes));
  }
  const py::gil_scoped_release release;
  return bytes ? cache::trim(*bytes) : 0;
}

std::vector<ElementType> elements_named(const std::vector<std::string>& types) {
  std::vector<ElementType> elements;
  for (const auto& type : types) {
    const auto element = element_type_named(type);
    TORCH_CHECK(element, "unknown element type '", type, "'");
    elements.push_back(*element);
  }
  return elements;
}

// "jvp" and "jvp_backward" name the operator of tangents and its backward, "dual" the operator of results and tangents.
std::pair<std::shared_ptr<const Operator>, OpKind> operator_of_kind(const Module& module, const std::string& name,
                                                                    const std::string& kind) {
  const auto op = module.find(name);
  if (kind == "dual") {
    TORCH_CHECK(op->dual != nullptr, op->signature().full_name(), " has no operator of results and tangents");
    return {op->dual, OpKind::Forward};
  }
  const bool is_jvp = kind == "jvp", is_jvp_backward = kind == "jvp_backward";
  if (!is_jvp && !is_jvp_backward) return {op, kind_named(kind)};
  TORCH_CHECK(op->jvp != nullptr, op->signature().full_name(), " has no operator of tangents");
  return {op->jvp, is_jvp ? OpKind::Forward : OpKind::Backward};
}

py::bytes cubin_of(const Module& module, const std::string& name, const std::string& kind,
                   const std::vector<std::string>& types, bool dense, const std::string& architecture, int groups,
                   int lanes, const std::array<uint32_t, 3>& block, int sample_dims, bool wave_sums) {
  const std::vector<ElementType> elements = elements_named(types);
  std::string cubin;
  {
    const py::gil_scoped_release release;
    const auto [op, op_kind] = operator_of_kind(module, name, kind);
    cubin = cubin_for(*op, op_kind, elements, dense, architecture, groups, lanes, block, sample_dims, wave_sums);
  }
  return py::bytes(cubin);
}

std::string cuda_text_of(const Module& module, const std::string& name, const std::string& kind,
                         const std::vector<std::string>& types, bool dense, bool wave_sums) {
  const auto [op, op_kind] = operator_of_kind(module, name, kind);
  return cuda_text_for(*op, op_kind, elements_named(types), dense, wave_sums);
}

void bind_module(py::module_& m) {
  py::class_<Module, std::shared_ptr<Module>> module(m, "Module");
  module.def_property_readonly("identity", &Module::identity)
      .def_property_readonly("path", &Module::path)
      .def_property_readonly("namespace", &Module::ns)
      .def_property_readonly("slang_version", [](const Module& self) { return self.program().slang_version; })
      .def("operators",
           [](const Module& self) {
             std::vector<std::string> names;
             for (const auto& [name, op] : self.operators()) names.push_back(name);
             return names;
           })
      .def("cubin", &cubin_of, py::arg("name"), py::arg("kind"), py::arg("types"), py::arg("dense") = true,
           py::arg("architecture") = "sm_90", py::arg("groups") = 1, py::arg("lanes") = 1,
           py::arg("block") = std::array<uint32_t, 3>{}, py::arg("sample_dims") = 0, py::arg("wave_sums") = false)
      .def("cuda_text", &cuda_text_of, py::arg("name"), py::arg("kind"), py::arg("types"), py::arg("dense") = true,
           py::arg("wave_sums") = false)
      .def("functions", &Module::functions)
      .def("overloads", &Module::overloads)
      .def("instantiate", &Module::instantiate, py::arg("name"), py::arg("types"), py::arg("sizes"))
      .def("generating", &Module::generating, py::arg("name"), py::arg("leaves"))
      .def("register_function", &Module::register_function, py::arg("name"), py::call_guard<py::gil_scoped_release>())
      .def(
          "kernels", [](const Module& self, const std::string& name) { return describe_kernels(*self.find(name)); },
          py::arg("name"))
      .def(
          "audits",
          [](const Module& self, const std::string& name) {
            const auto audits = std::static_pointer_cast<const audit::Audits>(self.find(name)->audits);
            return listed_findings(audits == nullptr ? std::vector<audit::Finding>() : audits->findings());
          },
          py::arg("name"))
      .def(
          "describe",
          [](const Module& self, const std::string& name) {
            py::dict told = describe(self.find(name)->signature());
            py::dict constants;
            for (const auto& [constant, value] : self.constants()) constants[py::str(constant)] = value;
            told["constants"] = constants;
            return told;
          },
          py::arg("name"));
  bind_host_functions(module);
  py::class_<Pin>(m, "Pin")
      .def(py::init<const Module&, const std::string&>(), py::arg("module"), py::arg("name"))
      .def("__enter__", &Pin::enter)
      .def("__exit__", &Pin::exit);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  bind_errors(m);
  watch_python_signals();
  bind_module(m);
  bind_tensors(m);
  bind_function_call(m);
  bind_operator_call(m);
  bind_launch_call(m);
  bind_tuning(m);
  bind_audit(m);
  m.def("set_virtual_threads_for_all", &set_virtual_threads_for_all, py::arg("value"));
  m.def("set_tiled_waves_for_all", &set_tiled_waves_for_all, py::arg("value"));
  m.def(
      "set_wave_sums",
      [](std::optional<bool> value) -> std::optional<bool> {
        const auto before = set_wave_sums(!value ? WaveSums::Measured : *value ? WaveSums::Always : WaveSums::Never);
        return before == WaveSums::Measured ? std::nullopt : std::optional(before == WaveSums::Always);
      },
      py::arg("value"));
  m.def("set_most_tiles", &set_most_tiles, py::arg("count"));
  m.def("set_compiler_path", &set_compiler_path, py::arg("path"));
  m.def("reserve_name", &reserve_name, py::arg("name"), py::arg("what_it_is"));
  m.def("load_builtin", &load_builtin, py::arg("folder"), py::call_guard<py::gil_scoped_release>());
  py::class_<LoadOptions>(m, "LoadOptions")
      .def(py::init(&options_of), py::kw_only(), py::arg("path"), py::arg("source"), py::arg("name"),
           py::arg("namespace"), py::arg("defines"), py::arg("tuned"), py::arg("include_dirs"), py::arg("annotations"),
           py::arg("fast_math"), py::arg("debug"));
  m.def(
      "load",
      [](const LoadOptions& options) {
        LoadResult result;
        {
          const py::gil_scoped_release release;
          result = load_module(options);
        }
        return py::make_tuple(std::const_pointer_cast<Module>(result.module), result.changed, result.is_new);
      },
      py::arg("options"));
  m.def(
      "read", [](const LoadOptions& options) { return std::const_pointer_cast<Module>(read_module(options)); },
      py::arg("options"), py::call_guard<py::gil_scoped_release>());
  m.def("descriptors_digest", &descriptors_digest);
  m.def("cache_path", &cache::path);
  m.def("cache_clear", [] { return cache::clear(); });
  m.def("cache_trim", &cache_trim, py::arg("size"));
  m.def("cache_stats", &stats_dict);
}

}  // namespace torch_slang
