// SPDX-License-Identifier: Apache-2.0
// Distinguishes a TorchScript archive from other files that are often called model.pt.
#pragma once

#include <string>

namespace hg::convert {

enum class Format { torchscript, exported, onnx, gguf };

// Returns the format of a file that looks like a convertible model. Otherwise throws Failure
// (unreadable) with a sentence that states what the file is and what to do next. `label` replaces
// the path in messages unless empty.
Format recognise(const std::string& path, const std::string& label = "");

}  // namespace hg::convert
