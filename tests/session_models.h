// SPDX-License-Identifier: Apache-2.0
// Models for session tests: random graphs, and small ones with open sizes, loops, branches,
// data-dependent sizes, and buffers that runs change.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hg/hg.h"

namespace hg::test {

struct SessionModel {
  std::string name;
  std::optional<Model> model;
  // Other ones, perhaps of other sizes, for each seed.
  std::function<Result<std::vector<TensorData>>(uint64_t seed)> inputs;
};

// The same model for the same seed; `files` are .hgm files of which it may be one.
SessionModel session_model(uint64_t seed, std::span<const std::string> files);

}  // namespace hg::test
