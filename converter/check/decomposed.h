// SPDX-License-Identifier: Apache-2.0
// The quantized ops that PyTorch registers from Python, for a libtorch without Python.
#pragma once

namespace hg::convert {

// Registers with libtorch those ops that it does not have. Each is a script of aten ops,
// independent of the converter's rows.
void declare_decomposed();

}  // namespace hg::convert
