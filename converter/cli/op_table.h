// SPDX-License-Identifier: Apache-2.0
// The output of hg-convert --list-ops; docs/ops.md is its text form.
#pragma once

#include <string>

namespace hg::convert {

// A page of Markdown: the ops of the library with what runs and differentiates them, then the ops
// of TorchScript that become nodes.
std::string op_table_text();
// {"ops": [{"op", "signature", "cpu", "vulkan", "gradient"}, ...], "torchscript": ["aten::abs",
// ...]}
std::string op_table_json();

}  // namespace hg::convert
