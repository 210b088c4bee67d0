// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/samples.h"

#include <algorithm>

#define HG_TABLE(stem)                  \
  namespace hg::test::samples {         \
  std::vector<hg::test::Sample> stem(); \
  }
#include "hg_samples_table.inc"
#undef HG_TABLE

namespace hg::test {

bool Sample::has_floats() const {
  const auto is_f32 = [](const NamedAttr& attr) {
    const DType* dtype = std::get_if<DType>(&attr.value.value);
    return dtype != nullptr && *dtype == f32;
  };
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const SampleInput& input) { return input.dtype == f32; }) ||
         std::any_of(attrs.begin(), attrs.end(), is_f32);
}

bool is_smooth(Activation activation) {
  return activation != Activation::relu && activation != Activation::relu6 &&
         activation != Activation::hardsigmoid && activation != Activation::hardswish;
}

std::vector<Sample> all_samples() {
  std::vector<Sample> all;
#define HG_TABLE(stem) \
  for (Sample & sample : samples::stem()) all.push_back(std::move(sample));
#include "hg_samples_table.inc"
#undef HG_TABLE
  return all;
}

}  // namespace hg::test
