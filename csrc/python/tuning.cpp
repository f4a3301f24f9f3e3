#include "python/tuning.h"

#include <pybind11/stl.h>

#include "tuning/choices.h"

namespace py = pybind11;

namespace torch_slang {

namespace {

py::list listed(const std::vector<choices::Keyed>& all) {
  py::list result;
  for (const auto& [key, choice] : all) {
    py::list tried;
    for (const auto& attempt : choice.tried)
      tried.append(py::make_tuple(attempt.value, attempt.seconds, attempt.problem));
    py::dict one;
    one["key"] = key;
    one["op"] = choice.op;
    one["about"] = choice.about;
    one["value"] = choice.value;
    one["tried"] = tried;
    one["spent"] = choice.spent;
    result.append(one);
  }
  return result;
}

}  // namespace

void bind_tuning(py::module_& m) {
  m.def("tuning_mode", [] { return choices::name_of(choices::mode()); });
  m.def("set_tuning_mode", &choices::set_mode, py::arg("name"));
  m.def("tuning_budget", &choices::budget);
  m.def("set_tuning_budget", &choices::set_budget, py::arg("seconds"));
  m.def("tuning_known", [] { return listed(choices::known()); });
  m.def("tuning_made", [] { return listed(choices::made()); });
  m.def("tuning_forget", &choices::forget);
  m.def("tuning_to_json", [] { return choices::to_json(choices::known()); });
  m.def("tuning_read_json", &choices::read_json, py::arg("text"));
}

}  // namespace torch_slang
