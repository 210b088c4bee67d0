// SPDX-License-Identifier: Apache-2.0
// Reads a model from untrusted bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/model.h"
#include "lib/model/mapping.h"

namespace hg {

struct Contents {
  Graph graph;  // empty in a library
  Model::Info info;
  std::vector<std::pair<std::string, Graph>> functions;
};

// Fails with corrupt_model, or with unsupported for other versions and for ops that are not in the
// registry. The graphs share the mapping's bytes.
Result<Contents> read_contents(const Mapping& mapping, const Registry& registry,
                               const LoadOptions& options);

}  // namespace hg
