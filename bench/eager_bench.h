// SPDX-License-Identifier: Apache-2.0
// The rows of eager_bench, and libtorch's time for each.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hg::bench {

struct EagerRow {
  std::string name;
  std::function<void()> call;
};

// ns of one call: the minimum of several measurements of many calls each.
double least_ns(const std::function<void()>& call);

// The same rows, by name, through libtorch on one thread; empty in a build without it.
std::vector<EagerRow> torch_rows();

}  // namespace hg::bench
