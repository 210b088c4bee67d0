// SPDX-License-Identifier: Apache-2.0
// Implements torchvision's ops for a libtorch without torchvision.
#pragma once

namespace hg::convert {

// Registers with libtorch those ops that it does not have. libtorch then runs them with this
// library's kernels, so that the rest of a model can be compared with libtorch.
void declare_torchvision();

}  // namespace hg::convert
