// SPDX-License-Identifier: Apache-2.0
// The fastest measured CPU kernel per node, for SessionOptions::autotune. Nodes are identified by
// op, attributes, types, number of threads, and processor.
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
  // An earlier result of blob(); ignored if damaged.
  explicit Tuning(std::span<const std::byte> blob);
  std::vector<std::byte> blob() const;

  // Returns the kernels of the known nodes of a plan; if `measure`, measures the other nodes first.
  // Skips nodes with little work or with unknown sizes.
  NodeKernels choose(const PlanRequest& request, bool measure);

 private:
  std::map<uint64_t, std::string> known_;
};

}  // namespace hg
