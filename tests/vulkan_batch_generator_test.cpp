// SPDX-License-Identifier: Apache-2.0
// A batch on a Vulkan device, whose keys and values move through the host.
#include "tests/random_batches.h"
#include "tests/small_decoder.h"
#include "tests/vulkan_fixture.h"

namespace hg::test {
namespace {

using BatchGeneratorOnVulkan = Vulkan;

TEST_F(BatchGeneratorOnVulkan, EqualsRunsOfTheWholeText) {
  small_decoder::Whole whole;
  BatchGenerator batch = must(BatchGenerator::create(small_decoder::decoder(), 3, options()));
  run_at_random(batch, 1, small_decoder::kWords, 60,
                [&](const Asked& asked, const GeneratedSequence& got, bool) {
                  EXPECT_EQ(got.ids,
                            whole.greedy(asked.prompt, static_cast<int64_t>(got.ids.size())));
                });
}

}  // namespace
}  // namespace hg::test
