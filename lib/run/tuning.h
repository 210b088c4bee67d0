// SPDX-License-Identifier: Apache-2.0
// Which CPU kernel was measured to be the fastest for a node, for SessionOptions::autotune. A node
// is known by its op, attributes, types, number of threads and processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hg/options.h"
#include "lib/plan/plan.h"

namespace hg {

class Tuning {
 public:
  // What blob() gave; empty when it is damaged.
  explicit Tuning(std::span<const std::byte> blob);
  std::vector<std::byte> blob() const;

  // The kernels of those nodes of a plan that are known, after measuring the others if `measure`
  // says so. Nodes with little work, or of sizes that are not known yet, are left out.
  NodeKernels choose(const PlanRequest& request, bool measure);

 private:
  std::map<uint64_t, std::string> known_;
};

}  // namespace hg
