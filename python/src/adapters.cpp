// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters beside the layers of a model.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "hg/adapter.h"
#include "python/src/bind.h"
#include "python/src/errors.h"

namespace hg::python {

void bind_adapters(nb::module_& m) {
  m.def("add_adapter", [](const Model& model, std::vector<std::string> layers, int64_t rank,
                          double alpha, uint64_t seed) {
    return take(add_adapter(model, {std::move(layers), rank, alpha, seed}));
  });
  m.def("take_adapter", [](const Model& model) { return take(take_adapter(model)); });
  m.def("apply_adapters", [](const Model& model, const std::vector<Model>& adapters, int64_t rank) {
    return take(apply_adapters(model, adapters, rank));
  });
  m.def("merge_adapters", [](const Model& model) { return take(merge_adapters(model)); });
}

}  // namespace hg::python
