// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/index.cpp and scatter.cpp. Each position that a plain scatter writes occurs
// once.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

SampleInput indices(const Sizes& shape, const std::vector<double>& values) {
  return {.dtype = i64, .shape = shape, .values = values};
}

}  // namespace

std::vector<Sample> index() {
  std::vector<Sample> all;
  all.push_back({.op = "gather",
                 .inputs = {{.shape = {3, 4}}, indices({2, 4}, {0, 2, 1, 0, 2, 2, 0, 1})},
                 .attrs = {{"dim", 0}}});
  all.push_back({.op = "gather",
                 .inputs = {{.shape = {3, 4}}, indices({3, 2}, {3, 0, 1, 1, 2, 3})},
                 .attrs = {{"dim", -1}}});
  all.push_back({.op = "index_select",
                 .inputs = {{.shape = {5, 17}}, indices({4}, {4, 0, 0, 2})},
                 .attrs = {{"dim", 0}}});
  all.push_back({.op = "index_select",
                 .inputs = {{.shape = {2, 5, 3}}, indices({0}, {})},
                 .attrs = {{"dim", 1}}});
  all.push_back(
      {.op = "embedding", .inputs = {{.shape = {7, 16}}, indices({2, 3}, {6, 0, 1, 1, 5, 3})}});
  all.push_back({.op = "index", .inputs = {{.shape = {3, 4, 5}}, indices({2, 2}, {0, -1, 2, 1})}});
  all.push_back(
      {.op = "index",
       .inputs = {{.shape = {3, 4, 5}}, indices({3}, {0, 2, -3}), indices({3}, {3, -4, 1})}});
  all.push_back(
      {.op = "index_put", .inputs = {{.shape = {4, 3}}, {.shape = {2, 3}}, indices({2}, {3, -3})}});
  all.push_back({.op = "index_put",
                 .inputs = {{.shape = {4, 3}}, {.shape = {3, 3}}, indices({3}, {1, 1, 0})},
                 .attrs = {{"accumulate", true}}});
  all.push_back(
      {.op = "one_hot", .inputs = {indices({2, 2}, {0, 4, 2, 1})}, .attrs = {{"num_classes", 5}}});
  all.push_back({.op = "scatter",
                 .inputs = {{.shape = {3, 4}}, indices({2, 2}, {0, 3, 2, 1}), {.shape = {2, 2}}},
                 .attrs = {{"dim", 1}}});
  for (const char* reduce : {"add", "prod", "amax", "amin", "mean"})
    for (const bool include_self : {true, false}) {
      const NamedAttrs attrs = {{"dim", 0}, {"reduce", reduce}, {"include_self", include_self}};
      all.push_back({.op = "scatter",
                     .inputs = {{.shape = {3, 3}},
                                indices({3, 3}, {0, 1, 2, 0, 2, 2, 1, 1, 2}),
                                {.shape = {3, 3}}},
                     .attrs = attrs});
      all.push_back({.op = "index_reduce",
                     .inputs = {{.shape = {3, 5}}, indices({4}, {0, 2, 2, 0}), {.shape = {4, 5}}},
                     .attrs = attrs});
      all.push_back({.op = "index_select_reduce",
                     .inputs = {{.shape = {3, 5}},
                                indices({4}, {0, 2, 2, 0}),
                                {.shape = {6, 5}},
                                indices({4}, {5, 1, 0, 5})},
                     .attrs = {{"reduce", reduce}, {"include_self", include_self}}});
    }
  all.push_back({.op = "index_select_reduce",
                 .inputs = {{.shape = {3, 300}},
                            indices({4}, {0, 0, 2, 2}),
                            {.shape = {6, 300}},
                            indices({4}, {5, 1, 0, 5}),
                            {.shape = {4}},
                            {.dtype = boolean, .shape = {4}, .values = {1, 0, 1, 1}}},
                 .attrs = {{"reduce", "add"}}});
  all.push_back({.op = "masked_scatter",
                 .inputs = {{.shape = {2, 3}},
                            {.dtype = boolean, .shape = {2, 3}, .values = {1, 0, 1, 1, 0, 0}},
                            {.shape = {4}}}});
  for (DType dtype : {f32, i64, u8, boolean})
    all.push_back({.op = "nonzero",
                   .inputs = {{.dtype = dtype, .shape = {2, 3}, .values = {1, 0, 1, 1, 0, 0}}}});
  all.push_back({.op = "nonzero", .inputs = {{.shape = {5}, .values = {0, 0, 0, 0, 0}}}});
  all.push_back({.op = "nonzero", .inputs = {{.shape = {3, 0}}}});
  all.push_back({.op = "nonzero", .inputs = {{.shape = {}, .values = {2}}}});
  all.push_back(
      {.op = "nonzero", .inputs = {{.dtype = boolean, .shape = {7, 5, 31}, .low = 0, .high = 1}}});
  all.push_back({.op = "repeat_interleave", .inputs = {indices({4}, {2, 0, 1, 3})}});
  all.push_back({.op = "repeat_interleave", .inputs = {indices({2}, {0, 0})}});
  all.push_back({.op = "repeat_interleave", .inputs = {{.dtype = i64, .shape = {0}}}});
  all.push_back(
      {.op = "repeat_interleave", .inputs = {{.dtype = i64, .shape = {131}, .low = 0, .high = 5}}});
  return all;
}

}  // namespace hg::test::samples
