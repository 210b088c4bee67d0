// SPDX-License-Identifier: Apache-2.0
// Numbers for the symbols of a graph, from the inputs that were given, from the host, and from the
// graph around it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

struct SizeSources {
  using Dims = std::span<const std::pair<std::string, int64_t>>;
  std::span<const Tensor> inputs = {};              // without data where not given
  Dims dims = {};                                   // which the inputs must agree with
  Dims fallback = {};                               // of symbols that nothing else tells
  const Bindings* outer = nullptr;                  // of the graph around
  std::span<const std::string> outer_symbols = {};  // which only that graph knows
};

// Each symbol of the graph once. Fails where two sources differ, and where a symbol has none.
Result<Bindings> bind_sizes(const Graph& graph, const SizeSources& sources);

}  // namespace hg
