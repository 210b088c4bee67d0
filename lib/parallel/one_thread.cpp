// SPDX-License-Identifier: Apache-2.0
#include "lib/parallel/threads.h"

namespace hg {

int default_threads() { return 1; }

ParallelFor session_threads(int, std::shared_ptr<void>&) {
  ParallelFor parallel;
  parallel.run = [](void*, int64_t count, void (*task)(void*, int64_t), void* arg) {
    for (int64_t i = 0; i < count; ++i) task(arg, i);
  };
  return parallel;
}

}  // namespace hg
