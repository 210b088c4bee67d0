// SPDX-License-Identifier: Apache-2.0
// torchvision's ops for a libtorch without torchvision.
#pragma once

namespace hg::convert {

// Registers with libtorch those that are not there yet. libtorch then runs them with the kernels of
// this library, so that the rest of a model can be compared with libtorch.
void declare_torchvision();

}  // namespace hg::convert
