// SPDX-License-Identifier: Apache-2.0
// Ops that Python registers. They stay until the process ends, and are known to every graph, model,
// executor and expression that Python makes.
#pragma once

#include <nanobind/nanobind.h>

#include "hg/op.h"

namespace hg::python {

namespace nb = nanobind;

// The built-in ops and Python's own.
Registry& registry();

}  // namespace hg::python
