// SPDX-License-Identifier: Apache-2.0
// Ops registered from Python. They live until the process ends; every graph, model, executor and
// expression created from Python knows them.
#pragma once

#include <nanobind/nanobind.h>

#include "hg/op.h"

namespace hg::python {

namespace nb = nanobind;

// The built-in ops and Python's own.
Registry& registry();

}  // namespace hg::python
