// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "lib/platform/process.h"

namespace hg {

// Without memory for the entry a child is as it would be without it.
void call_in_forked_children(void (*f)()) { (void)pthread_atfork(nullptr, nullptr, f); }

}  // namespace hg
