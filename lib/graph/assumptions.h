// SPDX-License-Identifier: Apache-2.0
// Assumptions of shape rules about symbolic sizes. Sessions check them when sizes are bound.
// Sessions drop unused nodes, so the importer turns the assumptions into guards.
#pragma once

#include <vector>

#include "hg/dim.h"
#include "hg/graph.h"

namespace hg {

struct Assumption {
  Dim left;
  Relation relation;
  Dim right;
};

// Collects the assumptions of rules that run on this thread during its lifetime. Nestable: the
// innermost object collects.
class Assumptions {
 public:
  Assumptions();
  ~Assumptions();
  Assumptions(const Assumptions&) = delete;
  Assumptions& operator=(const Assumptions&) = delete;

  const std::vector<Assumption>& taken() const { return taken_; }

  // Does nothing if no collector exists.
  static void take(const Dim& left, Relation relation, const Dim& right);

 private:
  std::vector<Assumption> taken_;
  Assumptions* const outer_;
};

}  // namespace hg
