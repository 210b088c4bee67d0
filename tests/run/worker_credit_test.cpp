// SPDX-License-Identifier: Apache-2.0
// When a session stops using workers, in regions of 100 us whose eight pieces two threads share.
#include "lib/parallel/worker_credit.h"

#include <gtest/gtest.h>

namespace hg {
namespace {

constexpr int64_t kUs = 3000;  // ticks

int64_t add(WorkerCredit& credit, int64_t own_pieces, int64_t work_us, int64_t total_us) {
  return credit.add({.own_pieces = own_pieces, .work = work_us * kUs, .total = total_us * kUs}, 8,
                    kUs) /
         kUs;
}
int64_t good(WorkerCredit& credit) { return add(credit, 4, 98, 100); }
int64_t stalled(WorkerCredit& credit) { return add(credit, 4, 98, 3000); }
// The caller was preempted, not the worker.
int64_t slow(WorkerCredit& credit) { return add(credit, 1, 3000, 3010); }

TEST(WorkerCredit, GainsPayForStalls) {
  WorkerCredit credit;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(good(credit), 0);
  EXPECT_EQ(stalled(credit), 0);
  for (int i = 0; i < 60; ++i) ASSERT_EQ(good(credit), 0);
  EXPECT_EQ(stalled(credit), 0);
  EXPECT_EQ(stalled(credit), WorkerCredit::kLeastAloneUs) << "more than the gains since the first";
}

TEST(WorkerCredit, WorkersThatDoNotHelpAreLeftOutForLonger) {
  WorkerCredit credit;
  int64_t alone = 0, most = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(slow(credit), 0);
    alone = stalled(credit);
    EXPECT_EQ(alone, std::min(most == 0 ? WorkerCredit::kLeastAloneUs : 4 * most,
                              WorkerCredit::kMostAloneUs));
    most = alone;
  }
  // A full credit ends that.
  for (int i = 0; i < 100; ++i) ASSERT_EQ(good(credit), 0);
  while ((alone = stalled(credit)) == 0) continue;
  EXPECT_EQ(alone, WorkerCredit::kLeastAloneUs);
}

TEST(WorkerCredit, SmallGainsDoNotCount) {
  WorkerCredit credit;
  int regions = 1;
  while (add(credit, 8, 105, 100 + 6) == 0 && regions < 1000) ++regions;
  EXPECT_GT(regions, 10);
  EXPECT_LT(regions, 100);
}

TEST(WorkerCredit, RegionsThatSayNothingChangeNothing) {
  WorkerCredit credit;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(add(credit, 0, 0, 3000), 0) << "the workers took every piece";
    ASSERT_EQ(add(credit, 4, -5, 3000), 0) << "the counter went back";
    ASSERT_EQ(add(credit, 4, 3000, 5), 0) << "the counter jumped";
  }
}

}  // namespace
}  // namespace hg
