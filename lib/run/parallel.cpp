// SPDX-License-Identifier: Apache-2.0
#include "lib/run/parallel.h"

#ifdef HG_OPENMP
#include <omp.h>
#endif

namespace hg {

#ifdef HG_OPENMP

int default_threads() { return omp_get_max_threads(); }

ParallelFor openmp_parallel_for(int threads) {
  ParallelFor parallel;
  parallel.threads = threads;
  // The number of threads travels in the host pointer, so that nothing needs to be kept alive.
  parallel.host = reinterpret_cast<void*>(static_cast<intptr_t>(threads));
  parallel.run = [](void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
    const auto limit = static_cast<int>(reinterpret_cast<intptr_t>(host));
    const int team = count < limit ? static_cast<int>(count) : limit;
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (int64_t i = 0; i < count; ++i) task(arg, i);
  };
  return parallel;
}

#else

int default_threads() { return 1; }

ParallelFor openmp_parallel_for(int) {
  ParallelFor parallel;
  parallel.run = [](void*, int64_t count, void (*task)(void*, int64_t), void* arg) {
    for (int64_t i = 0; i < count; ++i) task(arg, i);
  };
  return parallel;
}

#endif

}  // namespace hg
