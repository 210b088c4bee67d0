// SPDX-License-Identifier: Apache-2.0
// What shape rules take for granted of sizes that are not numbers yet. A session asks again when
// they are; a node that nobody reads is in no session, so that the import makes guards of it.
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

// Collects, while it lives, the assumptions of the rules that run on its thread. They may be
// nested: the innermost collects.
class Assumptions {
 public:
  Assumptions();
  ~Assumptions();
  Assumptions(const Assumptions&) = delete;
  Assumptions& operator=(const Assumptions&) = delete;

  const std::vector<Assumption>& taken() const { return taken_; }

  // Nothing where nobody collects.
  static void take(const Dim& left, Relation relation, const Dim& right);

 private:
  std::vector<Assumption> taken_;
  Assumptions* const outer_;
};

}  // namespace hg
