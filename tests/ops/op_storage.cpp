// SPDX-License-Identifier: Apache-2.0
// A sample as a file, and a sample with too little memory.
#include <gtest/gtest.h>

#include "tests/support/failing_allocation.h"
#include "tests/support/must.h"
#include "tests/ops/op_checks.h"

namespace hg::test {
namespace {

void expect_same_bits(const Result<std::vector<Answer>>& got, const std::vector<Answer>& expected,
                      const std::string& what) {
  ASSERT_TRUE(got.ok()) << what << ": " << got.status().message();
  ASSERT_EQ(got->size(), expected.size()) << what;
  for (size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ((*got)[k].shape, expected[k].shape) << what << ", output " << k;
    ASSERT_EQ((*got)[k].bytes, expected[k].bytes) << what << ", output " << k;
  }
}

}  // namespace

void check_saved(const Sample& sample, DType floats) {
  const std::unique_ptr<Case> c = must(build(sample, floats));
  const std::vector<Answer> expected = must(run(*c, on_threads(1)));
  const Model model = must(Model::from_graph(c->graph));
  const std::vector<std::byte> bytes = must(model.serialize());
  const Model read = must(Model::read(bytes));
  EXPECT_EQ(read.graph().text(), model.graph().text());
  const std::vector<std::byte> again = must(read.serialize());
  EXPECT_TRUE(again == bytes) << "saved again, the file differs";
  CaseRun loaded(*c);
  ASSERT_TRUE(loaded.create(read, on_threads(1)).ok());
  ASSERT_TRUE(loaded.run().ok());
  expect_same_bits(loaded.answers(), expected, str_cat(to_string(floats), " loaded"));
}

void check_short_memory(const Sample& sample) {
  const std::unique_ptr<Case> c = must(build(sample, f32));
  const Model model = must(Model::from_graph(c->graph));
  const std::vector<Answer> expected = must(run(*c, on_threads(1)));
  const auto gives_what_it_should = [&](CaseRun& run, const std::string& what) {
    const Status status = run.run();
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    expect_same_bits(run.answers(), expected, what);
  };
  for (int64_t k = 0;; ++k) {
    ASSERT_LT(k, 1000) << "more allocations than an op can need";
    const std::string what = str_cat("allocation ", k, " fails");
    const int64_t before = live_blocks();
    {
      CaseRun run(*c);
      fail_allocation(k);
      Status status = run.create(model, on_threads(1));
      if (status.ok()) status = run.run();
      if (!end_failing()) return;  // there are at most k allocations
      if (status.ok()) {           // the session may run without packed weights, by other kernels
        const Result<std::vector<Answer>> got = run.answers();
        ASSERT_TRUE(got.ok()) << what << ": " << got.status().message();
        for (size_t i = 0; i < expected.size(); ++i)
          expect_near((*got)[i].values, expected[i].values,
                      2 * tolerance_of(sample, (*got)[i].dtype), what);
      } else {
        ASSERT_EQ(status.code(), Code::out_of_memory) << what << ": " << status.message();
        if (run.is_created()) gives_what_it_should(run, what + ", then none");
      }
    }
    ASSERT_EQ(live_blocks(), before) << what << ": memory leaked";
  }
}

}  // namespace hg::test
