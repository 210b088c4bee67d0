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

// The tensors of a structure, a tuple of arguments or one of them, one for each name: one dict that
// has names alone gives them by name, all else in order, without its None. Where a dict says by its
// keys that it is in another order, this is a TypeError. There may be more or fewer than names;
// what a dict by name lacks is not valid.
std::vector<nb::object> in_order(nb::handle structure, std::span<const nb::object> names);

}  // namespace hg::python
