// SPDX-License-Identifier: Apache-2.0
// Ops of shared libraries that a command line names; hg/plugin.h says how one is made.
#pragma once

#include <span>
#include <string>

#include "hg/op.h"

namespace hg::tools {

// Adds to `registry` what each of the files has; they stay loaded. Fails with the file that cannot
// be loaded, is no plugin or is of another version, or whose ops are refused.
Status load_plugins(std::span<const std::string> files, Registry& registry);

}  // namespace hg::tools
