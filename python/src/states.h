// SPDX-License-Identifier: Apache-2.0
// States that the sessions of several entries share. Threads take turns at all of them.
#pragma once

#include <memory>

#include "hg/shared_states.h"
#include "python/src/turn.h"

namespace hg::python {

struct LockedStates {
  std::shared_ptr<SharedStates> shared;
  Turn turn;
};

}  // namespace hg::python
