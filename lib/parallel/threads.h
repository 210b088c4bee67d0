// SPDX-License-Identifier: Apache-2.0
// Threads of a session whose host provides none, as a ParallelFor. The build selects the
// implementation: OpenMP's threads (openmp.cpp), the process-wide pool (own_threads.cpp), or the
// caller alone (one_thread.cpp).
#pragma once

#include <memory>

#include "hg/kernel.h"

namespace hg {

// Number of threads of a session without an explicit number.
int default_threads();

// Uses at most `threads` threads, including the caller. `keeper` must live as long as the result is
// used.
ParallelFor session_threads(int threads, std::shared_ptr<void>& keeper);

}  // namespace hg
