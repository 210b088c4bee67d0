// SPDX-License-Identifier: Apache-2.0
// Error of a reduced build that lacks an op, kernel or dtype.
#pragma once

#include "hg/status.h"
#include "lib/table/holds.h"

namespace hg {

// `what` is, for example, "the op 'conv'" or "the dtype f16".
inline Status lacks(const std::string& what) {
  return unsupported("this build lacks ", what, " (HG_OPS was made from ", kChosenModels, ")");
}

}  // namespace hg
