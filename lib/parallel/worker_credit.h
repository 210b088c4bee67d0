// SPDX-License-Identifier: Apache-2.0
// Measures whether the workers of a session help. If other threads keep the processors busy,
// workers can cost more than they save: the caller waits a time slice for a preempted worker.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/parallel/thread_pool.h"

namespace hg {

class WorkerCredit {
 public:
  // Adds a region of `count` pieces. Returns the ticks for which the caller should now work alone;
  // 0: the workers help.
  int64_t add(const ThreadPool::Account& region, int64_t count, int64_t ticks_per_us) {
    if (region.own_pieces == 0) return 0;                         // no piece to estimate from
    if (region.work < 0 || region.total < region.work) return 0;  // the counter jumped
    const double alone = static_cast<double>(region.work) * static_cast<double>(count) /
                         static_cast<double>(region.own_pieces);
    // Pieces run slower in parallel than alone, so small measured gains do not count.
    const int64_t won =
        static_cast<int64_t>(std::min(alone, 1e15)) - region.total - region.total / 8;
    credit_ += std::min(won, kMostGainUs * ticks_per_us);
    if (credit_ >= kMostCreditUs * ticks_per_us) {
      credit_ = kMostCreditUs * ticks_per_us;
      alone_us_ = kLeastAloneUs;
      return 0;
    }
    if (credit_ >= -kMostLossUs * ticks_per_us) return 0;
    credit_ = 0;
    const int64_t us = alone_us_;
    alone_us_ = std::min(4 * us, kMostAloneUs);
    return us * ticks_per_us;
  }

  // Time that workers win pays for time that they lose when they are preempted, up to this much.
  // Otherwise a neighbor that runs now and then would take the workers away.
  static constexpr int64_t kMostCreditUs = 4000;
  // The most that a region wins: if the caller was preempted too, its pieces seem to take longer.
  static constexpr int64_t kMostGainUs = 100;
  static constexpr int64_t kMostLossUs = 250;  // without credit
  // Time without workers after a loss. It grows with each loss until the credit is full.
  static constexpr int64_t kLeastAloneUs = 4000, kMostAloneUs = 256000;

 private:
  int64_t credit_ = 0;                // ticks that losses may use up
  int64_t alone_us_ = kLeastAloneUs;  // after the next loss
};

}  // namespace hg
