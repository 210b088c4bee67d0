// SPDX-License-Identifier: Apache-2.0
// Binds the symbols of a graph, from its inputs, from the host, and from the enclosing graph.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

struct SizeSources {
  using Dims = std::span<const std::pair<std::string, int64_t>>;
  std::span<const Tensor> inputs = {};              // null data if not set
  Dims dims = {};                                   // must agree with the inputs
  Dims fallback = {};                               // for symbols that nothing else determines
  const Bindings* outer = nullptr;                  // of the enclosing graph
  std::span<const std::string> outer_symbols = {};  // known only to that graph
};

// The dim of an input that determined the size of a symbol; input -1: another source.
struct SizeOrigin {
  int32_t input = -1, dim = 0;
};

// Binds each symbol of the graph once. Fails if two sources differ or a symbol has no value.
// `origins`, if not null, is set to one entry per binding.
Result<Bindings> bind_sizes(const Graph& graph, const SizeSources& sources,
                            std::vector<SizeOrigin>* origins = nullptr);

// Binds the sizes of other inputs in place, without allocating. Other sources must be unchanged.
// Returns false if it is not certain that bind_sizes() would give the same; call that then.
bool bind_again(const Graph& graph, std::span<const Tensor> inputs,
                std::span<const SizeOrigin> origins, Bindings& bindings);

}  // namespace hg
