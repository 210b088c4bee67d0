// SPDX-License-Identifier: Apache-2.0
// Nested lists, tuples and dicts of tensors, as passed to models and trainers.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <vector>

namespace hg::python {

namespace nb = nanobind;

// A list, tuple or dict.
bool is_container(nb::handle object);

// The tensors of a structure, which is a tuple of arguments or one of them. A single dict that has
// only names as keys gives tensors by name. Anything else gives tensors in order, without None; a
// dict whose keys show another order raises TypeError. There may be more or fewer tensors than
// names. Names that a dict lacks are not valid.
std::vector<nb::object> in_order(nb::handle structure, std::span<const nb::object> names);

}  // namespace hg::python
