// SPDX-License-Identifier: Apache-2.0
// How a build that holds only what some models need refuses the rest.
#pragma once

#include "hg/status.h"
#include "lib/table/holds.h"

namespace hg {

// Of "the op 'conv'", "the dtype f16".
inline Status lacks(const std::string& what) {
  return unsupported("this build lacks ", what, " (HG_OPS was made from ", kChosenModels, ")");
}

}  // namespace hg
