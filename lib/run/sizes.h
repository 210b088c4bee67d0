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
  std::span<const std::string> outer_symbols = {};  // known only to the enclosing graph
};

// The dim of an input that determined the size of a symbol; input -1: another source.
struct SizeOrigin {
  int32_t input = -1, dim = 0;
};

class BoundSizes {
 public:
  // Sizes of the enclosing graph, for symbols that the inputs do not determine.
  void set_outer(const Bindings& sizes);
  const Bindings& outer() const { return outer_; }
  // Whether outer() has changed since settle().
  bool has_new_outer() const { return has_new_outer_; }
  void settle() { has_new_outer_ = false; }

  // Binds each symbol of the graph once. Fails if two sources differ or a symbol has no value. A
  // call allocates nothing if only the sizes of inputs have changed since the last call.
  Status bind(const Graph& graph, const SizeSources& sources);
  // Valid after a bind() that succeeded.
  const Bindings& all() const { return sizes_; }

 private:
  Bindings sizes_, outer_;
  std::vector<SizeOrigin> origins_;  // one per binding
  bool has_origins_ = false;         // whether only inputs may have changed since they were found
  bool has_new_outer_ = false;
};

}  // namespace hg
