// SPDX-License-Identifier: Apache-2.0
// One list per thread.
#include "lib/graph/assumptions.h"

namespace hg {
namespace {

thread_local Assumptions* innermost = nullptr;

}  // namespace

Assumptions::Assumptions() : outer_(innermost) { innermost = this; }
Assumptions::~Assumptions() { innermost = outer_; }

void Assumptions::take(const Dim& left, Relation relation, const Dim& right) {
  if (innermost != nullptr) innermost->taken_.push_back({left, relation, right});
}

}  // namespace hg
