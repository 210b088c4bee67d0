// SPDX-License-Identifier: Apache-2.0
// Processes that a process makes of itself.
#pragma once

namespace hg {

// Calls `f` in every child that is forked from now on, in the one thread that lives on there;
// never where a system has no fork().
void call_in_forked_children(void (*f)());

}  // namespace hg
