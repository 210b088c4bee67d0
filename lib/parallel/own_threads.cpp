// SPDX-License-Identifier: Apache-2.0
// A session's share of the pool. It watches whether the workers help: beside other busy threads
// they may cost more than they do, since a preempted worker holds up the caller for a time slice.
#include <algorithm>

#include "lib/parallel/thread_pool.h"
#include "lib/parallel/threads.h"
#include "lib/platform/thread.h"
#include "lib/platform/ticks.h"

namespace hg {
namespace {

constexpr int64_t kWindowUs = 2000;      // of regions that are judged together
constexpr int64_t kLeastAloneUs = 4000;  // that the caller works alone after a window of losses
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
    // Threads of one session take turns; judging is for the first of them.
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

  // What the caller would have taken alone, by its own pieces, beside what the region took.
  void judge(const ThreadPool::Account& account, int64_t count) {
    if (account.own_pieces == 0) return;  // no piece tells what the others are worth
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
      next_alone_us_ = std::max(next_alone_us_ / 2, kLeastAloneUs);  // one gain may be luck
    }
    won_ = spent_ = 0;
  }

  const int threads_;
  ThreadPool* pool_ = nullptr;
  std::atomic<bool> is_judging_{false};
  int64_t won_ = 0, spent_ = 0;              // ticks of the window
  int64_t next_alone_us_ = kLeastAloneUs;    // how long the next loss lasts
  int64_t alone_since_ = 0, alone_for_ = 0;  // ticks; 0: with the workers
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
