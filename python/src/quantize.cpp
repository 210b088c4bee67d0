// SPDX-License-Identifier: Apache-2.0
// Models with low-bit weights.
#include "hg/quantize.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "python/src/bind.h"
#include "python/src/errors.h"
#include "python/src/tensors.h"

namespace hg::python {

void bind_quantize(nb::module_& m) {
  // `runs`: None, or the inputs of each run in order.
  m.def(
      "quantize",
      [](const Model& model, int bits, int64_t group, std::vector<std::string> keep, int64_t least,
         double percentile, bool fastest, int threads, const std::string& rounding,
         std::optional<double> max_error, const std::optional<std::string>& metric,
         const std::vector<nb::object>& targets, nb::handle runs) {
        QuantizeOptions options = {.bits = bits,
                                   .group = group,
                                   .keep = std::move(keep),
                                   .least = least,
                                   .percentile = percentile,
                                   .fastest = fastest,
                                   .rounding = take(parse_rounding(rounding)),
                                   .max_error = max_error};
        if (metric) options.metric = Metric{.kind = take(parse_metric(*metric))};
        const Graph& graph = model.graph();
        std::vector<Borrowed> borrowed;
        std::vector<std::vector<ConstTensor>> samples;
        if (!runs.is_none())
          for (const nb::handle run : runs) {
            std::vector<ConstTensor>& inputs = samples.emplace_back();
            const auto given = nb::cast<std::vector<nb::object>>(run);
            if (given.size() != graph.inputs().size())
              raise(PyExc_TypeError, str_cat("the model takes ", uint64_t{graph.inputs().size()},
                                             " inputs, samples[", uint64_t{samples.size() - 1},
                                             "] has ", uint64_t{given.size()}));
            for (size_t i = 0; i < given.size(); ++i) {
              const ValueInfo& input = graph.value_info(graph.inputs()[i]);
              borrowed.push_back(Borrowed::from(given[i], str_cat("the input '", input.name, "'"),
                                                false, &input.type.dtype));
              inputs.push_back(borrowed.back().tensor);
            }
          }
        for (const nb::object& target : targets) {
          borrowed.push_back(Borrowed::from(target, "a target"));
          options.targets.push_back(borrowed.back().tensor);
        }
        std::optional<Result<Quantized>> made;
        {
          const nb::gil_scoped_release released;
          made.emplace(runs.is_none() ? quantize(model, options)
                                      : quantize(model, samples, options, {.threads = threads}));
        }
        return take(*std::move(made)).model;
      },
      nb::arg("model"), nb::arg("bits"), nb::arg("group"), nb::arg("keep"), nb::arg("least"),
      nb::arg("percentile"), nb::arg("fastest"), nb::arg("threads"), nb::arg("rounding"),
      nb::arg("max_error").none(), nb::arg("metric").none(), nb::arg("targets"),
      nb::arg("runs").none());
}

}  // namespace hg::python
