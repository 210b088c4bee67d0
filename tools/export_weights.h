// SPDX-License-Identifier: Apache-2.0
// Writes the weights of a model for other programs.
#pragma once

#include <string>

#include "hg/model.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

// Whether write_weights() supports the extension of this file name.
Outcome check_weights_path(const std::string& path);

// Parameters and buffers under all their names, as in state_dict(): a NumPy archive if `path` ends
// in .npz, otherwise a safetensors file. The file is written completely or not at all.
Outcome write_weights(const Model& model, const std::string& path);

}  // namespace hg::tools
