// SPDX-License-Identifier: Apache-2.0
// The rows of eager_bench, and what libtorch needs for each.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hg::bench {

struct EagerRow {
  std::string name;
  std::function<void()> call;
};

// ns of one call: the least of several measurements, each of many calls.
double least_ns(const std::function<void()>& call);

// The same rows, by name, through libtorch on one thread; empty in a build without it.
std::vector<EagerRow> torch_rows();

}  // namespace hg::bench
