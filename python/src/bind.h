// SPDX-License-Identifier: Apache-2.0
// The functions with which each file binds its part of hologram._core.
#pragma once

#include <nanobind/nanobind.h>

namespace hg::python {

namespace nb = nanobind;

void bind_adapters(nb::module_& m);
void bind_generator(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_model(nb::module_& m);
void bind_quantize(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_convert(nb::module_& m);  // only in builds with the converter
void bind_devices(nb::module_& m);
void bind_eager(nb::module_& m);
void bind_functions(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_lazy(nb::module_& m);
void bind_named(nb::module_& m);
void bind_own_ops(nb::module_& m);
void bind_states(nb::module_& m);
void bind_train(nb::module_& m);

}  // namespace hg::python
