#include "python/callable.h"

#include <structmember.h>

#include <algorithm>

#include "python/errors.h"

namespace py = pybind11;

namespace torch_slang {
namespace {

struct CallableObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Callable* callable;
};

PyObject* vectorcall(PyObject* self, PyObject* const* given, size_t count, PyObject* names) {
  try {
    return reinterpret_cast<CallableObject*>(self)->callable->call(given, PyVectorcall_NARGS(count), names);
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<CallableObject*>(self)->callable;
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* callable_type() {
  static PyTypeObject* const type = [] {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(CallableObject, vectorcall), READONLY, nullptr}, {}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&deallocate)},
                                  {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                  {Py_tp_members, static_cast<void*>(members)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"torch_slang._C.Callable", sizeof(CallableObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

}  // namespace

py::object make_callable(std::unique_ptr<Callable> callable) {
  PyTypeObject* type = callable_type();
  if (type == nullptr) throw py::error_already_set();
  auto* object = reinterpret_cast<CallableObject*>(type->tp_alloc(type, 0));
  if (object == nullptr) throw py::error_already_set();
  object->vectorcall = &vectorcall;
  object->callable = callable.release();
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

BoundArguments::BoundArguments(const std::vector<std::string>& names) : bound_(names.size()) {
  for (const std::string& name : names) {
    names_.push_back(py::reinterpret_steal<py::str>(PyUnicode_InternFromString(name.c_str())));
  }
}

bool BoundArguments::bind(PyObject* const* given, size_t positional, PyObject* names) {
  const size_t named = names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names));
  if (positional + named > bound_.size()) return false;
  std::copy(given, given + positional, bound_.begin());
  std::fill(bound_.begin() + static_cast<std::ptrdiff_t>(positional), bound_.end(), nullptr);
  for (size_t k = 0; k < named; ++k) {
    const size_t place = place_of(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), positional + k);
    if (place >= bound_.size() || bound_[place] != nullptr) return false;
    bound_[place] = given[positional + k];
  }
  return true;
}

// Names are interned, and mostly in order.
size_t BoundArguments::place_of(PyObject* name, size_t first) const {
  if (names_[first].ptr() == name) return first;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].ptr() == name) return i;
  }
  return names_.size();
}

}  // namespace torch_slang
