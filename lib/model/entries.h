// SPDX-License-Identifier: Apache-2.0
// States that several entries of a model have in common, by their names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

using Entries = std::vector<std::pair<std::string, Graph>>;

// States, by entry, that another entry assigns but this entry does not.
std::vector<std::pair<size_t, ValueId>> unlinked_states(const Entries& entries);
// Assigns these states to themselves, so that runs keep them and passes do not treat them as
// constant.
void link_states(Entries& entries);
// An empty graph whose status says that the model has several entries.
Graph no_single_graph(const Entries& entries);

}  // namespace hg
