// SPDX-License-Identifier: Apache-2.0
// Threads that a session starts when it first has work for two, and ends when it goes. A region
// inside of a region, or beside one of another thread, runs on the thread that enters it.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/parallel/shared_parts.h"
#include "lib/parallel/threads.h"

namespace hg {
namespace {

class Team {
 public:
  explicit Team(int threads) : threads_(threads), parts_(static_cast<size_t>(threads)) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void run(int64_t count, void (*task)(void*, int64_t), void* arg) {
    if (count < 2 || is_busy_.exchange(true, std::memory_order_acquire)) {
      for (int64_t i = 0; i < count; ++i) task(arg, i);
      return;
    }
    if (!has_begun_) begin();
    const auto team = std::min<int64_t>(count, static_cast<int64_t>(workers_.size()) + 1);
    for (int64_t t = 0; t < team; ++t) {
      parts_[static_cast<size_t>(t)].next.store(part_begin(count, team, t),
                                                std::memory_order_relaxed);
      parts_[static_cast<size_t>(t)].end = part_begin(count, team, t + 1);
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = task;
      arg_ = arg;
      team_ = team;
      ++region_;
    }
    work_.notify_all();
    take(0, team);
    {
      // Nothing is left. Workers that did not wake until now find no region; others end their task.
      std::unique_lock<std::mutex> lock(mutex_);
      team_ = 0;
      done_.wait(lock, [&] { return inside_ == 0; });
    }
    is_busy_.store(false, std::memory_order_release);
  }

 private:
  // As many as the system gives.
  void begin() {
    has_begun_ = true;
    try {
      workers_.reserve(static_cast<size_t>(threads_ - 1));
      for (int64_t t = 1; t < threads_; ++t) workers_.emplace_back([this, t] { work(t); });
    } catch (const std::exception&) {
    }
  }
  void work(int64_t own) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return is_ending_ || region_ != seen; });
      if (is_ending_) return;
      seen = region_;
      if (own >= team_) continue;
      ++inside_;
      const int64_t team = team_;
      lock.unlock();
      take(own, team);
      lock.lock();
      if (--inside_ == 0) done_.notify_one();
    }
  }
  void take(int64_t own, int64_t team) {
    take_parts(parts_.data(), team, own, [&](int64_t i) { task_(arg_, i); });
  }

  const int threads_;
  bool has_begun_ = false;
  std::atomic<bool> is_busy_{false};
  std::vector<std::thread> workers_;
  std::vector<SharedPart> parts_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  uint64_t region_ = 0;  // counts them
  int64_t team_ = 0;     // of the region; 0: there is none
  int64_t inside_ = 0;   // workers
  bool is_ending_ = false;
  void (*task_)(void*, int64_t) = nullptr;
  void* arg_ = nullptr;
};

}  // namespace

int default_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

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
