// SPDX-License-Identifier: Apache-2.0
// What a shape rule assumes about symbolic sizes. Sessions check it by running the rule again when
// sizes are bound. They drop unused nodes, so the importer turns their assumptions into guards.
#pragma once

#include "hg/dim.h"
#include "hg/graph.h"

namespace hg {

struct Assumption {
  Dim left;
  Relation relation;
  Dim right;
};

}  // namespace hg
