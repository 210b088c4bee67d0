// SPDX-License-Identifier: Apache-2.0
// Names of the tensors that an exported program takes and returns, read from the structure of its
// Python arguments. Caches of transformers get the names of a generator (lib/graph/past_names.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "converter/core/script.h"

namespace hg::convert {

struct Leaf {
  std::string name = {};     // empty: the program's own name
  std::string suffix = {};   // of a cache's tensor: ".0.key"
  bool is_past = false;      // keys or values of a cache that grows
  bool is_constant = false;  // of a cache: no run changes it
  std::string trouble = {};  // why no run can continue from the cache: " has ..."
};

struct Leaves {
  // In the order of the program's arguments and results.
  std::vector<Leaf> inputs, outputs;
  bool has_cache = false;  // whether each tensor of a cache is taken and returned
};
// Without `with_caches`, only outputs in dicts have names.
Leaves leaves_of(const nlohmann::json& graph_module, bool with_caches = true);

// Gives equal sizes the same symbols, so that the length of a cache follows from the mask: sizes
// of one layer's keys and values, the batch, and sizes that guards state to be equal. `suffixes`
// has the inputs that a cache consists of, by index. `guards` have the form "4*n + 2 == m",
// "n <= m" in the symbols of the inputs.
void join_sizes(ScriptProgram& program, const std::vector<std::string>& suffixes,
                const std::vector<std::string>& guards);

}  // namespace hg::convert
