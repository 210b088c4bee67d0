// SPDX-License-Identifier: Apache-2.0
// Turns library statuses into Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "hg/status.h"

namespace hg::python {

namespace nb = nanobind;

// The exception for a status that is not ok: invalid_argument ValueError, not_found LookupError,
// unsupported UnsupportedError, corrupt_model CorruptModelError, out_of_memory MemoryError,
// device_lost DeviceLostError, cancelled KeyboardInterrupt, internal RuntimeError.
[[noreturn]] void raise(const Status& status);
// An exception of this type, one of Python's PyExc_*.
[[noreturn]] void raise(PyObject* type, const std::string& message);

// A str of this text. Bytes that are not UTF-8, such as those of a damaged file, become U+FFFD.
nb::object text_of(const std::string& text);
// str() of an object.
std::string words(nb::handle object);
// The integer value of an object. TypeError if it is not an integer, ValueError if it does not fit
// 64 bits.
int64_t whole(nb::handle object);
// bool() of an object.
bool truth(nb::handle object);

inline void check(const Status& status) {
  if (!status.ok()) [[unlikely]]
    raise(status);
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) [[unlikely]]
    raise(result.status());
  return *std::move(result);
}

}  // namespace hg::python
