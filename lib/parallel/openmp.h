// SPDX-License-Identifier: Apache-2.0
// OpenMP's threads as a ParallelFor.
#pragma once

#include "hg/kernel.h"

namespace hg {

// As many threads as OpenMP would take; 1 without OpenMP.
int default_threads();

// Uses at most `threads` threads.
ParallelFor openmp_parallel_for(int threads);

}  // namespace hg
