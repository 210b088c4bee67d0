// SPDX-License-Identifier: Apache-2.0
// Models with weights in few bits.
#include "hg/quantize.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "python/src/bind.h"
#include "python/src/errors.h"

namespace hg::python {

void bind_quantize(nb::module_& m) {
  m.def("quantize", [](const Model& model, int bits, int64_t group, std::vector<std::string> keep,
                       int64_t least) {
    std::optional<Result<Quantized>> made;
    {
      const nb::gil_scoped_release released;
      made.emplace(quantize(model, {.bits = bits, .group = group, .keep = keep, .least = least}));
    }
    return take(*std::move(made)).model;
  });
}

}  // namespace hg::python
