// SPDX-License-Identifier: Apache-2.0
// Tells a TorchScript archive from the other things that people have in a file called model.pt.
#pragma once

#include <string>

namespace hg::convert {

// Throws Failure (unreadable), one sentence saying what the file is and what to do next, unless it
// looks like a TorchScript archive. `label` stands for the path in messages, when not empty.
void require_torchscript(const std::string& path, const std::string& label = "");

}  // namespace hg::convert
