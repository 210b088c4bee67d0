// SPDX-License-Identifier: Apache-2.0
// Python functions that the library calls. Their exceptions pass through the library as the message
// of a status and are raised again on the way out.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>

#include "hg/status.h"

namespace hg::python {

namespace nb = nanobind;

// Keeps an exception and gives the message that stands for it, which lives until the exception is
// raised again or many more came after it. The GIL is held.
const char* keep_exception(nb::python_error&& error);
// Raises the exception that a message stands for; returns where it stands for none. The GIL is
// held.
void raise_kept(std::string_view message);

// An object that may be let go of on any thread.
std::shared_ptr<nb::object> shared_object(nb::object object);

// What `function` gives, with the GIL; exceptions become statuses.
template <class Function>
Status with_python(const Function& function) {
  if (Py_IsInitialized() == 0) return internal_error("Python has ended");
  const nb::gil_scoped_acquire acquired;
  try {
    return function();
  } catch (nb::python_error& error) {
    return invalid_argument(keep_exception(std::move(error)));
  } catch (const std::exception& error) {  // what a function gave is not what it should
    return invalid_argument(error.what());
  }
}

}  // namespace hg::python
