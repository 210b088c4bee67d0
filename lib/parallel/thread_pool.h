// SPDX-License-Identifier: Apache-2.0
// The threads that all sessions of a process share. Threads may be preempted at any time, so
// nothing waits for a thread that has not begun. The caller of a region runs every piece that no
// worker took, and waits only for pieces in progress. Waiting spins briefly, then sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lib/parallel/shared_parts.h"
#include "lib/platform/thread.h"

namespace hg {

class ThreadPool {
 public:
  static constexpr int kMaxTeam = 64;  // per region

  // The work on a region, in ticks() of the caller.
  struct Account {
    int64_t own_pieces = 0;  // pieces that the caller ran
    int64_t work = 0;        // ticks spent on them
    int64_t total = 0;       // from begin to end of the region
  };

  // Returns the pool of this process. The first holder creates it; the last one destroys it.
  static ThreadPool* hold();
  void release();

  // Runs task(arg, i) for i in [0, count) on the caller and at most threads - 1 workers. Concurrent
  // and nested regions share the workers. The first call that needs more workers starts them, and
  // waits until each has begun.
  Account run(int threads, int64_t count, void (*task)(void*, int64_t), void* arg);

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  static constexpr int kRegions = 32;  // concurrent regions; further callers work alone

  struct alignas(64) Region {
    std::atomic<uint32_t> state{0};  // number of workers inside, and the flags below
    std::atomic<int32_t> joined{0};  // workers that have entered
    int32_t team = 0;
    void (*task)(void*, int64_t) = nullptr;
    void* arg = nullptr;
    uint64_t float_environment = 0;  // of the caller
    SharedPart parts[kMaxTeam];
  };
  static constexpr uint32_t kOpen = 1u << 31;     // workers may enter
  static constexpr uint32_t kAwaited = 1u << 30;  // the caller sleeps until all have left
  static constexpr uint32_t kInside = kAwaited - 1;

  ThreadPool();
  ~ThreadPool();
  void start_workers(int count);
  void work(int worker);
  uint32_t wait_for_region();
  void help(Region& region, uint32_t bit, int worker);
  void close(Region& region, int64_t patience);

  std::atomic<uint32_t> free_{~0u};            // unused regions
  alignas(64) std::atomic<uint32_t> open_{0};  // regions with pieces that no thread has begun
  // Changes when workers are woken. A worker that wakes after its region ended waits for the next
  // one.
  alignas(64) std::atomic<uint32_t> wakeups_{0};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> is_ending_{false};
  // For sleeping threads. std::atomic::wait may lose a notification where GCC 12 has no futex.
  std::mutex sleep_;
  std::condition_variable wake_;  // workers, when a region opens
  std::condition_variable left_;  // callers, when the last worker has left a region
  int begun_ = 0;                 // number of workers that have begun
  const int born_;                // number of forks before it was created
  std::atomic<int> wanted_{0};    // number of requested workers
  std::atomic<bool> is_starting_{false};
  struct Worker {
    ThreadPool* pool = nullptr;
    int number = 0;
    Thread thread;
  };
  std::unique_ptr<Worker[]> workers_;  // modified only while is_starting_
  int worker_count_ = 0;
  Region regions_[kRegions];
};

}  // namespace hg
