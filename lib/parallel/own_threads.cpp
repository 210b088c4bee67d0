// SPDX-License-Identifier: Apache-2.0
// A session's use of the pool. Measures whether the workers help. If other threads keep the
// processors busy, workers can cost more than they save: the caller waits a time slice for a
// preempted worker.
#include <algorithm>

#include "lib/parallel/thread_pool.h"
#include "lib/parallel/threads.h"
#include "lib/platform/thread.h"
#include "lib/platform/ticks.h"

namespace hg {
namespace {

constexpr int64_t kWindowUs = 2000;      // time in regions per judgment
constexpr int64_t kLeastAloneUs = 4000;  // least time without workers after a loss
constexpr int64_t kMostAloneUs = 256000;

class Team {
 public:
  explicit Team(int threads) : threads_(threads) {
    if (threads > 1) pool_ = ThreadPool::hold();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    if (pool_ != nullptr) pool_->release();
  }

  void run(int64_t count, void (*task)(void*, int64_t), void* arg) {
    // Only one thread of a session judges at a time.
    const bool is_judge = !is_judging_.exchange(true, std::memory_order_acquire);
    if (pool_ == nullptr || count < 2 || (is_judge && works_alone())) {
      for (int64_t i = 0; i < count; ++i) task(arg, i);
    } else {
      const ThreadPool::Account account = pool_->run(threads_, count, task, arg);
      if (is_judge) judge(account, count);
    }
    if (is_judge) is_judging_.store(false, std::memory_order_release);
  }

 private:
  bool works_alone() {
    if (alone_for_ == 0) return false;
    if (ticks_since(alone_since_) < alone_for_) return true;
    alone_for_ = 0;
    return false;
  }

  // Compares the estimated time of the caller alone, from its own pieces, with the time of the
  // region.
  void judge(const ThreadPool::Account& account, int64_t count) {
    if (account.own_pieces == 0) return;                           // no piece to estimate from
    if (account.work < 0 || account.total < account.work) return;  // the counter jumped
    const double alone = static_cast<double>(account.work) * static_cast<double>(count) /
                         static_cast<double>(account.own_pieces);
    won_ += static_cast<int64_t>(std::min(alone, 1e15)) - account.total;
    spent_ += account.total;
    if (spent_ < kWindowUs * ticks_per_us()) return;
    // Pieces run slower in parallel than alone, so small measured gains do not count.
    if (won_ < spent_ / 8) {
      alone_since_ = ticks();
      alone_for_ = next_alone_us_ * ticks_per_us();
      next_alone_us_ = std::min(4 * next_alone_us_, kMostAloneUs);
    } else if (won_ > spent_ / 4) {
      next_alone_us_ = std::max(next_alone_us_ / 2, kLeastAloneUs);  // a single gain may be luck
    }
    won_ = spent_ = 0;
  }

  const int threads_;
  ThreadPool* pool_ = nullptr;
  std::atomic<bool> is_judging_{false};
  int64_t won_ = 0, spent_ = 0;              // of the current window
  int64_t next_alone_us_ = kLeastAloneUs;    // duration after the next loss
  int64_t alone_since_ = 0, alone_for_ = 0;  // ticks; alone_for_ is 0 while workers help
};

}  // namespace

int default_threads() { return processor_count(); }

ParallelFor session_threads(int threads, std::shared_ptr<void>& keeper) {
  const auto team = std::make_shared<Team>(std::max(threads, 1));
  keeper = team;
  ParallelFor parallel;
  parallel.threads = threads;
  parallel.host = team.get();
  parallel.run = [](void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
    static_cast<Team*>(host)->run(count, task, arg);
  };
  return parallel;
}

}  // namespace hg
