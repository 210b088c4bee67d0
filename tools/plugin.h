// SPDX-License-Identifier: Apache-2.0
// Loads ops from shared libraries named on the command line; hg/plugin.h explains how to write one.
#pragma once

#include <span>
#include <string>

#include "hg/op.h"

namespace hg::tools {

// Adds the ops and kernels of each file to `registry`. The files stay loaded. Fails and names the
// file if it cannot be loaded, is not a plugin, is of another version, or if its ops are rejected.
Status load_plugins(std::span<const std::string> files, Registry& registry);

}  // namespace hg::tools
