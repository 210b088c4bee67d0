// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/random.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> random() {
  std::vector<Sample> all = {
      {.op = "dropout", .inputs = {{f32, {3, 5}}}, .attrs = {{"p", 0.5}}},
      {.op = "dropout", .inputs = {{f32, {2, 3, 4}}}, .attrs = {{"p", 0.0}, {"training", true}}},
      {.op = "dropout", .inputs = {{f32, {7}}}, .attrs = {{"p", 1.0}, {"training", true}}},
  };
  for (const bool channels : {false, true})
    for (const Sizes& shape : {Sizes{}, Sizes{3, 5}, Sizes{2, 5, 3, 7}, Sizes{0, 3}})
      all.push_back(
          {.op = "dropout",
           .inputs = {{f32, shape}},
           .attrs = {{"p", 0.3}, {"training", true}, {"channels", channels}, {"stream", 5}}});
  using Dims = std::vector<Dim>;
  for (std::string_view op : {"rand", "randn"})
    for (const Dims& shape : {Dims{}, Dims{1}, Dims{3, 17}, Dims{0, 2}, Dims{8197}})
      all.push_back({.op = op,
                     .attrs = {{"shape", shape},
                               {"dtype", f32},
                               {"stream", static_cast<int64_t>(shape.size())}},
                     .tolerance = op == "randn" ? 1e-6 : 0});
  return all;
}

}  // namespace hg::test::samples
