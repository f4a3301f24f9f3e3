// torch_slang.audit.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "audit/finding.h"

namespace torch_slang {

pybind11::list listed_findings(const std::vector<audit::Finding>& findings);
void bind_audit(pybind11::module_& m);

}  // namespace torch_slang
