// SPDX-License-Identifier: Apache-2.0
// Batches and copied pasts on a Vulkan device, whose keys and values move through the host.
#include <cstdio>

#include "tests/generate/random_batches.h"
#include "tests/support/small_decoder.h"
#include "tests/vulkan/vulkan_fixture.h"

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

TEST_F(BatchGeneratorOnVulkan, CopiesThePastOfGenerators) {
  using namespace small_decoder;
  Whole whole;
  Generator generator = must(Generator::create(decoder(), options()));
  const Ids prompt = random_ids(12, 1);
  Ids text = prompt;
  for (const int32_t id : random_ids(9, 2)) text.push_back(id);
  (void)must(generator.append(prompt));
  Generator fork = must(generator.fork());
  (void)must(generator.append(random_ids(20, 3)));
  ASSERT_TRUE(generator.truncate(12).ok());
  const std::string path = testing::TempDir() + "hg_vulkan.past";
  ASSERT_TRUE(generator.save(path).ok());
  Generator loaded = must(Generator::create(decoder(), options()));
  ASSERT_TRUE(loaded.load(path).ok());
  std::remove(path.c_str());
  for (Generator* const each : {&generator, &fork, &loaded}) {
    const Generation answer =
        must(each->generate({text}, {.max_tokens = 6, .reuse_past = true, .lookup = 3}));
    EXPECT_EQ(answer.reused, 12);
    EXPECT_EQ(answer.sequences[0].ids, whole.greedy(text, 6));
  }
}

}  // namespace
}  // namespace hg::test
