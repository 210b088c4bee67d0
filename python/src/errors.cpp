// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

#include <nanobind/stl/string.h>

#include "python/src/callbacks.h"

namespace hg::python {
namespace {

// The classes that hologram/_errors.py defines.
nb::object own(const char* name) { return nb::module_::import_("hologram._errors").attr(name); }

nb::object type_of(Code code) {
  switch (code) {
    case Code::not_found:
      return own("NotFoundError");
    case Code::unsupported:
      return own("UnsupportedError");
    case Code::corrupt_model:
      return own("CorruptModelError");
    case Code::device_lost:
      return own("DeviceLostError");
    case Code::out_of_memory:
      return nb::borrow(PyExc_MemoryError);
    case Code::cancelled:
      return nb::borrow(PyExc_KeyboardInterrupt);
    case Code::internal:
    case Code::busy:
      return nb::borrow(PyExc_RuntimeError);
    default:
      return nb::borrow(PyExc_ValueError);
  }
}

}  // namespace

std::string words(nb::handle object) {
  const nb::object made = nb::steal(PyObject_Str(object.ptr()));
  if (!made.is_valid()) throw nb::python_error();
  // Text that is not UTF-8, such as a file name, is converted to valid UTF-8.
  const nb::object bytes =
      nb::steal(PyUnicode_AsEncodedString(made.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

int64_t whole(nb::handle object) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) raise(PyExc_ValueError, words(index) + " does not fit an integer of 64 bits");
  return value;
}

bool truth(nb::handle object) {
  const int answer = PyObject_IsTrue(object.ptr());
  if (answer < 0) throw nb::python_error();
  return answer == 1;
}

nb::object text_of(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void raise(PyObject* type, const std::string& message) {
  PyErr_SetObject(type, text_of(message).ptr());
  throw nb::python_error();
}

void raise(const Status& status) {
  // If Ctrl-C was the reason, Python's own exception is already pending.
  if (status.code() == Code::cancelled && PyErr_CheckSignals() != 0) throw nb::python_error();
  raise_kept(status.message());
  raise(type_of(status.code()).ptr(), std::string(status.message()));
}

}  // namespace hg::python
