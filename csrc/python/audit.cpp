#include "python/audit.h"

#include <pybind11/stl.h>

#include "audit/audits.h"
#include "audit/mode.h"
#include "audit/queue.h"

namespace py = pybind11;

namespace torch_slang {

py::list listed_findings(const std::vector<audit::Finding>& findings) {
  py::list result;
  for (const audit::Finding& finding : findings) {
    py::dict one;
    one["name"] = finding.name;
    one["order"] = static_cast<int>(finding.order);
    one["types"] = finding.types;
    one["outcome"] = audit::name_of(finding.outcome);
    one["text"] = finding.text;
    one["seconds"] = finding.seconds;
    one["accepted"] = finding.is_accepted;
    result.append(one);
  }
  return result;
}

void bind_audit(py::module_& m) {
  m.def("audit_mode", &audit::mode_name);
  m.def("set_audit_mode", &audit::set_mode, py::arg("name"));
  m.def("audit_accept", &audit::accept, py::arg("name"));
  m.def("audit_report", [] { return listed_findings(audit::report()); });
  m.def("audit_wait", &audit::wait, py::arg("seconds"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace torch_slang
