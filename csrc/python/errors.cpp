#include "python/errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/cpp_stacktraces.h>

#include <exception>
#include <string>
#include <typeinfo>

#include "torch_slang/error.h"
#include "torch_slang/last_error.h"

namespace py = pybind11;

namespace torch_slang {
namespace {

PyObject* compile_error = nullptr;
PyObject* launch_error = nullptr;

// As PyTorch does, but for bytes that are no UTF-8: diagnostics quote files.
void set_error(PyObject* type, const c10::Error& error) {
  const bool has_backtrace = torch::get_cpp_stacktraces_enabled();
  const std::string message = torch::processErrorMsg(has_backtrace ? error.what() : error.what_without_backtrace());
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  if (text == nullptr) return;  // out of memory: that error is set
  PyErr_SetObject(type, text);
  Py_DECREF(text);
}

// Sets Python's error for CompileError and LaunchError. Rethrows all others.
void translate_own(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const CompileError& e) {
    set_error(compile_error, e);
  } catch (const LaunchError& e) {
    set_error(launch_error, e);
  }
}

// Sets Python's error for errors of PyTorch and of this library. Rethrows all others, for pybind11 to translate.
void translate(std::exception_ptr error) {
  try {
    translate_own(error);
  } catch (const c10::Error& e) {
    if (typeid(e) == typeid(c10::Error)) {
      set_error(PyExc_RuntimeError, e);
    } else {
      torch::translate_exception_to_python(error);
    }
  }
}

}  // namespace

void restore_own_type() {
  py::error_already_set error;  // takes it
  const OwnError& last = last_own_error();
  if (last.kind != OwnError::Kind::None && error.type().ptr() == PyExc_RuntimeError) {
    const py::object message = py::str(error.value());
    if (py::cast<std::string>(message).starts_with(torch::processErrorMsg(last.message))) {
      PyObject* const type = last.kind == OwnError::Kind::Compile ? compile_error : launch_error;
      PyErr_Restore(py::handle(type).inc_ref().ptr(), message.inc_ref().ptr(), error.trace().inc_ref().ptr());
      return;
    }
  }
  error.restore();
}

void bind_errors(py::module_& m) {
  compile_error = py::exception<CompileError>(m, "CompileError", PyExc_RuntimeError).release().ptr();
  launch_error = py::exception<LaunchError>(m, "LaunchError", PyExc_RuntimeError).release().ptr();
  py::register_exception_translator(translate_own);  // for other bindings that let them through, torch.ops among them
  py::register_local_exception_translator(translate);  // asked first, for this module's
}

}  // namespace torch_slang
