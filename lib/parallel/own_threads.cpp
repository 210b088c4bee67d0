// SPDX-License-Identifier: Apache-2.0
// A session's use of the pool.
#include <algorithm>

#include "lib/parallel/thread_pool.h"
#include "lib/parallel/threads.h"
#include "lib/parallel/worker_credit.h"
#include "lib/platform/thread.h"
#include "lib/platform/ticks.h"

namespace hg {
namespace {

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
      if (is_judge && (alone_for_ = credit_.add(account, count, ticks_per_us())) > 0)
        alone_since_ = ticks();
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

  const int threads_;
  ThreadPool* pool_ = nullptr;
  std::atomic<bool> is_judging_{false};
  WorkerCredit credit_;
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
