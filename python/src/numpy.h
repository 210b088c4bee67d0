// SPDX-License-Identifier: Apache-2.0
// numpy arrays through numpy's C interface, several times faster than the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include "hg/tensor.h"

namespace hg::python {

namespace nb = nanobind;

// Fills numpy's table of functions, when the module is imported.
void find_numpy();
bool is_numpy_array(nb::handle object);
// Not of a subclass, which may give its elements another meaning.
bool is_plain_array(nb::handle object);
// Looks at the memory of an array. False where its elements are of a type that numpy has from
// elsewhere, are not aligned or in another byte order, or have more dims than a Tensor.
bool see_array(nb::handle array, Tensor& tensor, bool& read_only);
// A new array with memory of its own, not set.
nb::object new_array(DType dtype, const Sizes& shape, void*& data);
// An array that looks at memory which `base` keeps alive.
nb::object array_on(const Tensor& tensor, nb::object base, bool read_only);

}  // namespace hg::python
