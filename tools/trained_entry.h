// SPDX-License-Identifier: Apache-2.0
// A file of several entries, one of which was trained.
#pragma once

#include <string>

#include "hg/model.h"

namespace hg::tools {

// Returns the file with the trained model as the entry `name`. Other entries get the trained values
// of the weights and buffers that they shared with it: equal names, types and bits.
Result<Model> with_trained_entry(const Model& file, const std::string& name, const Model& trained);

}  // namespace hg::tools
