#include "python/interrupts.h"

#include <pthread.h>
#include <pybind11/pybind11.h>

#include <atomic>

#include "common/interrupts.h"

namespace py = pybind11;

namespace torch_slang {
namespace {

// Python's own exception: bindings, torch's and ours, and torch's autograd engine hand it on as it is.
class PythonInterrupt final : public py::error_already_set, public Interrupted {};

// Of Python: the thread that its signal handlers run on. In a forked process it is the one that forked.
std::atomic<pthread_t> main_thread;

void note_main_thread() { main_thread = ::pthread_self(); }

// Other threads do not ask for the interpreter's lock: one that does while the interpreter ends never comes back.
void check_python_signals() {
  if (::pthread_equal(main_thread, ::pthread_self()) == 0 || Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw PythonInterrupt();
}

}  // namespace

void watch_python_signals() {
  const auto main = py::module_::import("threading").attr("main_thread")().attr("ident");
  main_thread = static_cast<pthread_t>(main.cast<unsigned long>());
  ::pthread_atfork(nullptr, nullptr, note_main_thread);
  set_interrupt_check(check_python_signals);
}

}  // namespace torch_slang
