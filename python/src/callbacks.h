// SPDX-License-Identifier: Apache-2.0
// Python functions that the library calls. Their exceptions pass through the library as the message
// of a status and are raised again when it returns.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>

#include "hg/status.h"

namespace hg::python {

namespace nb = nanobind;

// Stores an exception and returns a message that represents it. The message lives until the
// exception is raised again or many later ones are stored. The GIL must be held.
const char* keep_exception(nb::python_error&& error);
// Raises the exception that a message represents; returns if it represents none. The GIL must be
// held.
void raise_kept(std::string_view message);

// An object whose last reference may be dropped on any thread.
std::shared_ptr<nb::object> shared_object(nb::object object);

// Calls `function` with the GIL and returns its result. Exceptions become statuses.
template <class Function>
Status with_python(const Function& function) {
  if (Py_IsInitialized() == 0) return internal_error("Python has ended");
  const nb::gil_scoped_acquire acquired;
  try {
    return function();
  } catch (nb::python_error& error) {
    return invalid_argument(keep_exception(std::move(error)));
  } catch (const std::exception& error) {  // the result has the wrong type
    return invalid_argument(error.what());
  }
}

}  // namespace hg::python
