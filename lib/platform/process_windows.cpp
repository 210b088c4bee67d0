// SPDX-License-Identifier: Apache-2.0
#include "lib/platform/process.h"

namespace hg {

void call_in_forked_children(void (*)()) {}

}  // namespace hg
