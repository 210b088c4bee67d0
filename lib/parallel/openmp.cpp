// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include "lib/parallel/shared_parts.h"
#include "lib/parallel/threads.h"
#include "lib/platform/process.h"

namespace hg {
namespace {

constexpr int kMaxTeam = 32;

// In a forked child, the OpenMP team of the surviving thread is gone, and a region would wait for
// it. So that thread runs its work alone. New threads get new teams.
thread_local bool is_alone = false;

void watch_forks() {
  [[maybe_unused]] static const bool watched =
      (call_in_forked_children([] { is_alone = true; }), true);
}

}  // namespace

int default_threads() {
  watch_forks();
  return omp_get_max_threads();
}

ParallelFor session_threads(int threads, std::shared_ptr<void>&) {
  watch_forks();
  ParallelFor parallel;
  parallel.threads = threads;
  // The host pointer stores the number of threads, so no object must be kept alive.
  parallel.host = reinterpret_cast<void*>(static_cast<intptr_t>(threads));
  parallel.run = [](void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
    const auto limit = static_cast<int>(reinterpret_cast<intptr_t>(host));
    const int team = count < limit ? static_cast<int>(count) : limit;
    if (is_alone) {
      for (int64_t i = 0; i < count; ++i) task(arg, i);
      return;
    }
    if (team > kMaxTeam) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
      for (int64_t i = 0; i < count; ++i) task(arg, i);
      return;
    }
    // With one task per thread, no shared counter is needed.
    if (count == team) {
#pragma omp parallel num_threads(team)
      for (int64_t i = omp_get_thread_num(); i < count; i += omp_get_num_threads()) task(arg, i);
      return;
    }
    SharedPart parts[kMaxTeam];
    for (int t = 0; t < team; ++t) {
      parts[t].next.store(part_begin(count, team, t), std::memory_order_relaxed);
      parts[t].end = part_begin(count, team, t + 1);
    }
#pragma omp parallel num_threads(team)
    take_parts(parts, team, omp_get_thread_num(), [&](int64_t i) { task(arg, i); });
  };
  return parallel;
}

}  // namespace hg
