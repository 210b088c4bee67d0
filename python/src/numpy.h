// SPDX-License-Identifier: Apache-2.0
// numpy arrays through numpy's C interface, which is several times faster than the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include "hg/tensor.h"

namespace hg::python {

namespace nb = nanobind;

// Loads numpy's function table when the module is imported.
void find_numpy();
bool is_numpy_array(nb::handle object);
// Not for subclasses, which may give their elements another meaning.
bool is_plain_array(nb::handle object);
// Views the memory of an array. Returns false if its elements have a type of another package, are
// unaligned or in another byte order, or if it has more dims than a Tensor.
bool see_array(nb::handle array, Tensor& tensor, bool& read_only);
// A new array with its own uninitialized memory.
nb::object new_array(DType dtype, const Sizes& shape, void*& data);
// An array that views memory, which `base` keeps alive.
nb::object array_on(const Tensor& tensor, nb::object base, bool read_only);

}  // namespace hg::python
