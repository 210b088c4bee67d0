// SPDX-License-Identifier: Apache-2.0
#include "lib/parallel/thread_pool.h"

#ifdef HG_OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <bit>
#include <new>
#include <thread>

#include "lib/platform/float_environment.h"
#include "lib/platform/process.h"
#include "lib/platform/ticks.h"

namespace hg {
namespace {

// Time that workers spin for the next region before they sleep: longer than the gaps between the
// kernels of a run, and shorter than a time slice of the system.
constexpr int64_t kWorkerSpinUs = 100;
// Time that the caller spins for a piece, in addition to the duration of a piece so far.
constexpr int64_t kCallerSpinUs = 10;

// The pool and the number of its holders. Both are guarded by a lock that a forked child can reset.
constinit std::atomic_flag is_locked = ATOMIC_FLAG_INIT;
constinit ThreadPool* current = nullptr;
constinit int64_t holders = 0;
// The child of a fork has none of the threads: pools created before the fork run on the caller
// alone.
constinit std::atomic<int> forks{0};
constinit std::atomic<bool> watches_forks{false};

class Lock {
 public:
  Lock() {
    while (is_locked.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Lock() { is_locked.clear(std::memory_order_release); }
};

void leave_parent() {
  forks.fetch_add(1, std::memory_order_relaxed);
  current = nullptr;
  holders = 0;
  is_locked.clear(std::memory_order_release);
}

}  // namespace

ThreadPool* ThreadPool::hold() {
  // Not a static variable, whose guard a fork could leave locked. Registering twice is harmless.
  if (!watches_forks.load(std::memory_order_acquire)) {
    call_in_forked_children(leave_parent);
    watches_forks.store(true, std::memory_order_release);
  }
  const Lock lock;
  if (current == nullptr) current = new ThreadPool();
  ++holders;
  return current;
}

void ThreadPool::release() {
  if (born_ != forks.load(std::memory_order_relaxed)) return;  // its threads are in the parent
  {
    const Lock lock;
    if (--holders > 0) return;
    current = nullptr;
  }
  delete this;
}

ThreadPool::ThreadPool() : born_(forks.load(std::memory_order_relaxed)) {}

ThreadPool::~ThreadPool() {
  is_ending_.store(true, std::memory_order_seq_cst);
  {
    const std::lock_guard<std::mutex> lock(sleep_);
    wakeups_.fetch_add(1, std::memory_order_seq_cst);
  }
  wake_.notify_all();
  for (int i = 0; i < worker_count_; ++i) workers_[i].thread.join();
}

// Starts as many as the system allows, at most kMaxTeam - 1.
void ThreadPool::start_workers(int count) {
  if (is_starting_.exchange(true, std::memory_order_acquire)) return;
  if (workers_ == nullptr) workers_.reset(new (std::nothrow) Worker[kMaxTeam - 1]);
  while (workers_ != nullptr && worker_count_ < std::min(count, kMaxTeam - 1)) {
    Worker& next = workers_[worker_count_];
    next.pool = this;
    next.number = worker_count_ + 1;
    const auto run = [](void* arg) {
      const Worker& worker = *static_cast<const Worker*>(arg);
      worker.pool->work(worker.number);
    };
    if (!next.thread.start(run, &next)) break;
    ++worker_count_;
  }
  {
    // Waits, so that allocations at the start of a thread do not happen during a later run.
    std::unique_lock<std::mutex> lock(sleep_);
    left_.wait(lock, [&] { return begun_ == worker_count_; });
  }
  wanted_.store(std::max(count, wanted_.load(std::memory_order_relaxed)),
                std::memory_order_relaxed);
  is_starting_.store(false, std::memory_order_release);
}

ThreadPool::Account ThreadPool::run(int threads, int64_t count, void (*task)(void*, int64_t),
                                    void* arg) {
  Account account{.total = -ticks()};
  const auto team = static_cast<int32_t>(std::min<int64_t>({threads, count, kMaxTeam}));
  uint32_t bit = 0;
  if (team > 1 && born_ == forks.load(std::memory_order_relaxed)) {
    if (wanted_.load(std::memory_order_relaxed) < threads - 1) start_workers(threads - 1);
    uint32_t free = free_.load(std::memory_order_relaxed);
    do {
      bit = free & (~free + 1);
    } while (bit != 0 &&
             !free_.compare_exchange_weak(free, free & ~bit, std::memory_order_acquire));
  }
  if (bit == 0) {
    for (int64_t i = 0; i < count; ++i) task(arg, i);
    account.own_pieces = count;
    account.total += ticks();
    account.work = account.total;
    return account;
  }
  Region& region = regions_[std::countr_zero(bit)];
  region.team = team;
  region.task = task;
  region.arg = arg;
  region.float_environment = float_environment();
  region.joined.store(0, std::memory_order_relaxed);
  for (int32_t t = 0; t < team; ++t) {
    region.parts[t].next.store(part_begin(count, team, t), std::memory_order_relaxed);
    region.parts[t].end = part_begin(count, team, t + 1);
  }
  region.state.store(kOpen, std::memory_order_release);
  open_.fetch_or(bit, std::memory_order_seq_cst);
  const int32_t asleep = sleepers_.load(std::memory_order_seq_cst);
  if (asleep > 0) {
    {
      const std::lock_guard<std::mutex> lock(sleep_);
      wakeups_.fetch_add(1, std::memory_order_seq_cst);
    }
    for (int32_t i = 0; i < std::min(asleep, team - 1); ++i) wake_.notify_one();
  }
  const int64_t begin = ticks();
  account.own_pieces = take_parts(region.parts, team, 0, [&](int64_t piece) { task(arg, piece); });
  account.work = ticks() - begin;
  open_.fetch_and(~bit, std::memory_order_relaxed);
  const int64_t piece = account.own_pieces > 0 ? account.work / account.own_pieces : 0;
  close(region, std::max<int64_t>(0, 2 * piece) + kCallerSpinUs * ticks_per_us());
  free_.fetch_or(bit, std::memory_order_release);
  account.total += ticks();
  return account;
}

// Waits for workers that are computing a piece. A worker that takes far longer than earlier pieces
// was probably preempted: sleeping frees this processor for it.
void ThreadPool::close(Region& region, int64_t patience) {
  uint32_t state = region.state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  if (state == 0) return;
  const int64_t begin = ticks();
  while ((state = region.state.load(std::memory_order_acquire)) != 0 &&
         ticks_since(begin) < patience)
    relax();
  if (state == 0) return;
  state = region.state.fetch_or(kAwaited, std::memory_order_acq_rel);
  if ((state & kInside) == 0) return;
  std::unique_lock<std::mutex> lock(sleep_);
  left_.wait(lock, [&] { return (region.state.load(std::memory_order_acquire) & kInside) == 0; });
}

void ThreadPool::work(int worker) {
#ifdef HG_OPENMP
  omp_set_num_threads(1);  // for this thread: OpenBLAS starts none; allocates now
#endif
  {
    const std::lock_guard<std::mutex> lock(sleep_);
    ++begun_;
  }
  left_.notify_all();
  while (const uint32_t open = wait_for_region()) {
    // If several regions are open, workers begin at different ones.
    const uint32_t turned = std::rotr(open, worker % kRegions);
    const int index = (std::countr_zero(turned) + worker) % kRegions;
    help(regions_[index], uint32_t{1} << index, worker);
  }
}

// Returns the open regions; 0 if the pool ends.
uint32_t ThreadPool::wait_for_region() {
  for (;;) {
    const int64_t begin = ticks(), spin = kWorkerSpinUs * ticks_per_us();
    do {
      if (const uint32_t open = open_.load(std::memory_order_acquire)) return open;
      for (int i = 0; i < 8; ++i) relax();
    } while (ticks_since(begin) < spin && !is_ending_.load(std::memory_order_relaxed));
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = wakeups_.load(std::memory_order_seq_cst);
    const bool ends = is_ending_.load(std::memory_order_seq_cst);
    if (!ends && open_.load(std::memory_order_seq_cst) == 0) {
      std::unique_lock<std::mutex> lock(sleep_);
      wake_.wait(lock, [&] { return wakeups_.load(std::memory_order_relaxed) != seen; });
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (ends) return 0;
  }
}

void ThreadPool::help(Region& region, uint32_t bit, int worker) {
  uint32_t state = region.state.load(std::memory_order_relaxed);
  do {
    if ((state & kOpen) == 0) return;
  } while (!region.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                               std::memory_order_relaxed));
  // From here until the worker leaves, the caller does not end its region.
  const int32_t joined = region.joined.fetch_add(1, std::memory_order_relaxed) + 1;
  if (joined < region.team) {
    set_float_environment(region.float_environment);
    take_parts(region.parts, region.team, worker % region.team,
               [&](int64_t piece) { region.task(region.arg, piece); });
  }
  // No piece is left for any worker.
  open_.fetch_and(~bit, std::memory_order_relaxed);
  if (region.state.fetch_sub(1, std::memory_order_acq_rel) == (kAwaited | 1)) {
    { const std::lock_guard<std::mutex> lock(sleep_); }  // the caller sleeps or checks again
    left_.notify_all();                                  // also wakes callers of other regions
  }
}

}  // namespace hg
