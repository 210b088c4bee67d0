// SPDX-License-Identifier: Apache-2.0
// Threads of a session whose host lends none, as a ParallelFor. Which they are is the build's
// choice: OpenMP's (openmp.cpp), threads of the session's own (own_threads.cpp), or the caller
// alone (one_thread.cpp).
#pragma once

#include <memory>

#include "hg/kernel.h"

namespace hg {

// As many as a session takes that is not told how many.
int default_threads();

// At most so many threads, one of them the caller. `keeper` must live as long as the result is
// used.
ParallelFor session_threads(int threads, std::shared_ptr<void>& keeper);

}  // namespace hg
