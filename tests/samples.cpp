// SPDX-License-Identifier: Apache-2.0
#include "tests/samples.h"

#define HG_TABLE(stem)                  \
  namespace hg::test::samples {         \
  std::vector<hg::test::Sample> stem(); \
  }
#include "hg_samples_table.inc"
#undef HG_TABLE

namespace hg::test {

std::vector<Sample> all_samples() {
  std::vector<Sample> all;
#define HG_TABLE(stem) \
  for (Sample & sample : samples::stem()) all.push_back(std::move(sample));
#include "hg_samples_table.inc"
#undef HG_TABLE
  return all;
}

}  // namespace hg::test
