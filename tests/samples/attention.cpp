// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/attention.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> attention() {
  struct Case {
    Sizes q, k, v;
  };
  const Case cases[] = {
      {{1, 1}, {1, 1}, {1, 1}},
      {{5, 4}, {7, 4}, {7, 3}},
      {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
      {{2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 6}},
      {{1, 6, 2, 5}, {1, 1, 3, 5}, {1, 1, 3, 5}},
      {{1, 2, 33, 17}, {1, 2, 70, 17}, {1, 2, 70, 19}},
  };
  std::vector<Sample> all;
  for (const Case& c : cases) {
    const std::vector<SampleInput> qkv = {{.shape = c.q}, {.shape = c.k}, {.shape = c.v}};
    all.push_back({.op = "attention", .inputs = qkv});
    all.push_back({.op = "attention", .inputs = qkv, .attrs = {{"scale", 0.7}, {"causal", true}}});
    std::vector<SampleInput> masked = qkv;
    masked.push_back({.shape = {c.q[c.q.rank() - 2], c.k[c.k.rank() - 2]}});
    all.push_back({.op = "attention", .inputs = masked});
    masked.back() = {.dtype = boolean, .shape = {1, c.k[c.k.rank() - 2]}, .low = 0, .high = 1};
    all.push_back({.op = "attention", .inputs = masked});
  }
  all.push_back({.op = "attention",  // the second query sees no key
                 .inputs = {{.shape = {2, 3}},
                            {.shape = {2, 3}},
                            {.shape = {2, 3}},
                            {.dtype = boolean, .shape = {2, 2}, .values = {1, 0, 0, 0}}}});
  all.push_back({.op = "attention",
                 .inputs = {{.shape = {1, 2, 100, 64}},
                            {.shape = {1, 2, 130, 64}},
                            {.shape = {1, 2, 130, 64}}},
                 .attrs = {{"causal", true}},
                 .gradient = false});
  all.push_back({.op = "attention",
                 .inputs = {{.shape = {3, 200}}, {.shape = {5, 200}}, {.shape = {5, 150}}},
                 .gradient = false});
  const size_t count = all.size();
  // The same with keys and values in 16 bits.
  for (size_t i = 0; i < count; ++i) {
    Sample sample = all[i];
    sample.op = "mixed_attention";
    sample.inputs[1].dtype = sample.inputs[2].dtype = i % 2 == 0 ? f16 : bf16;
    sample.gradient = false;
    sample.floats = {f32};
    all.push_back(sample);
    // And in 8 bits with scales.
    if (sample.inputs.size() == 3) sample.inputs.push_back({.shape = {}, .given = false});
    for (size_t t = 1; t <= 2; ++t) {
      SampleInput& levels = sample.inputs[t];
      levels = {.dtype = i8, .shape = levels.shape, .low = -127, .high = 127};
      Sizes scales = levels.shape;
      scales[scales.rank() - 1] = 1;
      sample.inputs.push_back({.shape = scales, .low = 0.001, .high = 0.01});
    }
    all.push_back(std::move(sample));
  }
  // The same for the gradient, of a dy that is as large as y.
  for (size_t i = 0; i < count; ++i) {
    Sample sample = all[i];
    sample.op = "attention_grad";
    if (sample.inputs.size() == 3) sample.inputs.push_back({.shape = {}, .given = false});
    Sizes shape = sample.inputs[0].shape;
    shape[shape.rank() - 1] = sample.inputs[2].shape.back();
    sample.inputs.push_back({.shape = shape});
    sample.gradient = sample.gradient && shape.count() < 200;
    all.push_back(std::move(sample));
  }
  return all;
}

}  // namespace hg::test::samples
