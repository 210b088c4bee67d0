// SPDX-License-Identifier: Apache-2.0
// What hg-train writes of a trained model: a file of several entries, and weights for other
// programs.
#pragma once

#include <string>

#include "hg/model.h"
#include "tools/command_line/cli.h"

namespace hg::tools {

// Returns the file with the trained model as the entry `name`. Other entries get the trained values
// of the weights and buffers that they shared with it: equal names, types and bits.
Result<Model> with_trained_entry(const Model& file, const std::string& name, const Model& trained);

// Whether write_weights() supports the extension of this file name.
Outcome check_weights_path(const std::string& path);

// Parameters and buffers under all their names, as in state_dict(): a NumPy archive if `path` ends
// in .npz, otherwise a safetensors file. The file is written completely or not at all.
Outcome write_weights(const Model& model, const std::string& path);

}  // namespace hg::tools
