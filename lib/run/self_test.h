// SPDX-License-Identifier: Apache-2.0
// Trust in a device: before a kernel of it is used for the first time it computes a small case that
// the CPU computes too. Verdicts are kept with what else was measured on the device, in its cache.
#pragma once

#include <set>
#include <string>

#include "hg/session.h"

namespace hg {

// The kernels of the device, as "op=kernel", whose answers for the ops of this graph are wrong. Those
// behind one that is right are not tested, unless it has a case of its own, as one for few shapes has.
// `options.gpu` is open. With `options.kernels` nothing is tested: the host has chosen.
Result<std::set<std::string>> distrusted_kernels(const Graph& graph, const Options& options,
                                                 const Registry& registry);

// A graph whose only node is this op, on inputs of this type where it takes any: the case of the
// kernel or else that of the op; empty outputs when there is none.
Graph self_test_case(const Op& op, DType real, const Registry& registry,
                     std::string_view kernel = "");

}  // namespace hg
