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
  std::string name = {};               // empty: the program's own name
  std::string suffix = {};             // of a cache's tensor: ".0.key"
  bool is_past = false;                // keys or values of a cache that grows
  int grows = 2;                       // the dim with one position per token, if is_past
  bool is_constant = false;            // of a cache: no run changes it
  std::string trouble = {};            // why no run can continue from the cache: " has ..."
  std::vector<std::string> path = {};  // keys and places above the tensor
};

struct Leaves {
  // In the order of the program's arguments and results.
  std::vector<Leaf> inputs, outputs;
  bool has_cache = false;  // whether each tensor of a cache is taken and returned
};
// Without `with_caches`, only outputs in dicts have names.
Leaves leaves_of(const nlohmann::json& graph_module, bool with_caches = true);

// Names the tensors that a language model of any form takes and returns longer: an output is the
// concatenation of an input and new positions, or has its place in a structure of the same form.
// Sets the suffixes of such inputs and outputs, and of states in the same structures. Returns
// whether there are any.
bool name_carried(const nlohmann::json& graph_module, Leaves& leaves);

// Returns the suffix of a tensor with this place in a cache: ".0.key" for {"layers", "0", "keys"}.
std::string path_suffix(std::vector<std::string> path);

// Gives equal sizes the same symbols, so that the length of a cache follows from the mask: sizes
// of one layer's keys and values, the batch, and sizes that guards state to be equal. `cache` has
// the leaf of each input; inputs outside of the cache have no suffix. `guards` have the form
// "4*n + 2 == m", "n <= m" in the symbols of the inputs.
void join_sizes(ScriptProgram& program, const std::vector<Leaf>& cache,
                const std::vector<std::string>& guards);

}  // namespace hg::convert
