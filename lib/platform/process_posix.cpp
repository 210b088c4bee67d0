// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "lib/platform/process.h"

namespace hg {

// If there is no memory for the entry, a child runs without the callback.
void call_in_forked_children(void (*f)()) { (void)pthread_atfork(nullptr, nullptr, f); }

}  // namespace hg
