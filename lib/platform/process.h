// SPDX-License-Identifier: Apache-2.0
// Forked processes.
#pragma once

namespace hg {

// Calls `f` in every child that is forked from now on, in its only thread. Never called on systems
// without fork().
void call_in_forked_children(void (*f)());

}  // namespace hg
