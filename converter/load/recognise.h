// SPDX-License-Identifier: Apache-2.0
// Distinguishes a TorchScript archive from other files that are often called model.pt.
#pragma once

#include <string>

namespace hg::convert {

enum class Format { torchscript, exported, onnx, gguf };

// Of a file that looks like a model that can be converted. Throws Failure (unreadable) otherwise,
// one sentence saying what the file is and what to do next. `label` stands for the path in
// messages, when not empty.
Format recognise(const std::string& path, const std::string& label = "");

}  // namespace hg::convert
