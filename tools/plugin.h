// SPDX-License-Identifier: Apache-2.0
// Loads ops from shared libraries named on the command line; hg/plugin.h explains how to write one.
#pragma once

#include <span>
#include <string>

#include "hg/op.h"

namespace hg::tools {

// Adds to `registry` what each of the files has; they stay loaded. Fails with the file that cannot
// be loaded, is no plugin or is of another version, or whose ops are refused.
Status load_plugins(std::span<const std::string> files, Registry& registry);

}  // namespace hg::tools
