// SPDX-License-Identifier: Apache-2.0
// Models for session tests: random graphs, and small ones with open sizes, loops, branches,
// data-dependent sizes, and buffers that runs change.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hg/hg.h"

namespace hg::test {

struct SessionModel {
  std::string name;
  std::optional<Model> model;
  // Each seed gives other inputs, perhaps of other sizes.
  std::function<Result<std::vector<TensorData>>(uint64_t seed)> inputs;
};

// The same seed gives the same model: that of `file` (.hgm), unless it is empty.
SessionModel session_model(uint64_t seed, const std::string& file);

}  // namespace hg::test
