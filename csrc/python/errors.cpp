#include "python/errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <typeinfo>

#include "torch_slang/error.h"

namespace py = pybind11;

namespace torch_slang {
namespace {

PyObject* compile_error = nullptr;
PyObject* launch_error = nullptr;

// The C++ backtrace is for logs, not for users. Diagnostics quote files, whose bytes may be no UTF-8.
void set_error(PyObject* type, const c10::Error& error) {
  const std::string message = error.what_without_backtrace();
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  if (text == nullptr) return;  // out of memory: that error is set
  PyErr_SetObject(type, text);
  Py_DECREF(text);
}

// Lets every other exception through.
void translate_own(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const CompileError& e) {
    set_error(compile_error, e);
  } catch (const LaunchError& e) {
    set_error(launch_error, e);
  }
}

// Lets what is no error of PyTorch's or ours through: pybind11 knows its own.
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

void set_python_error(const std::exception_ptr& error) {
  try {
    translate(error);
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

void bind_errors(py::module_& m) {
  compile_error = py::exception<CompileError>(m, "CompileError", PyExc_RuntimeError).release().ptr();
  launch_error = py::exception<LaunchError>(m, "LaunchError", PyExc_RuntimeError).release().ptr();
  py::register_exception_translator(translate_own);  // for other bindings that let them through, torch.ops among them
  py::register_local_exception_translator(translate);  // asked first, for this module's
}

}  // namespace torch_slang
