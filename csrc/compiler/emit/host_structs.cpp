#include "compiler/emit/host_structs.h"

#include <c10/util/StringUtil.h>

#include <string>

#include "common/identifiers.h"

namespace torch_slang {
namespace {

// Of a differentiable view the kernel is given the tensor; the gradient behind it is no argument of a launch.
bool is_view(std::string_view name) { return is_numbered(name) && name.substr(0, name.rfind('_')) == "DiffTensorView"; }

}  // namespace

int flatten_structs(EmittedCode& code) {
  for (const EmittedStruct& one : code.structs()) {
    std::string calls;
    for (const EmittedField& field : one.fields) {
      if (calls.empty() || !is_view(one.name)) calls += c10::str(" tsl_flatten(list, value.", field.name, ");");
    }
    code.insert_behind(one.end + 1, c10::str(" inline void tsl_flatten(tsl::Components& list, const ", one.name,
                                             "& value) {", calls, " }"));
  }
  return static_cast<int>(code.structs().size());
}

}  // namespace torch_slang
