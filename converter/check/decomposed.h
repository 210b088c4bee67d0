// SPDX-License-Identifier: Apache-2.0
// The quantized ops that PyTorch registers from Python, for a libtorch without Python.
#pragma once

namespace hg::convert {

// Registers with libtorch those that are not there yet. Each is a script of aten ops, which has
// nothing of the converter's rows.
void declare_decomposed();

}  // namespace hg::convert
