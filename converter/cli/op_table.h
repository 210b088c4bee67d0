// SPDX-License-Identifier: Apache-2.0
// The output of hg-convert --list-ops; the text is a page of the documentation.
#pragma once

#include <string>

namespace hg::convert {

// Returns a page of Markdown: the ops of the library by family, with their texts, kernels and
// gradients, then the TorchScript ops that become nodes.
std::string op_table_text();
// Returns {"ops": [{"op", "signature", "text", "cpu", "vulkan", "gradient"}, ...], "torchscript":
// ["aten::abs", ...]}.
std::string op_table_json();

}  // namespace hg::convert
